#ifndef NETMOD_INLINE_H_INCLUDED
#define NETMOD_INLINE_H_INCLUDED

#include "composite_send.h"
#include "composite_recv.h"
#include "composite_rma.h"
#include "composite_coll.h"
#include "composite_part.h"

#include "composite_progress.h"
#include "composite_am.h"
#include "composite_proc.h"
#include "composite_noinline.h"

#endif
