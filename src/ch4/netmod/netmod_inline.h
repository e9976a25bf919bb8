#ifndef NETMOD_INLINE_H_INCLUDED
#define NETMOD_INLINE_H_INCLUDED

#include "composite_send.h"
#include "netmod_am_fallback_recv.h"
#include "netmod_am_fallback_probe.h"
#include "composite_rma.h"
#include "composite_coll.h"
#include "composite_part.h"

#include "composite_progress.h"
#include "composite_am.h"
#include "composite_proc.h"
#include "composite_noinline.h"

#endif
