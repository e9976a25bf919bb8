// How functions of the C interface fail.
#pragma once

#include "base/status.h"

namespace pm {

// Keeps the words for pm_error_text(), of this thread, and answers PM_FAILED.
int failed(const Error &error);

}  // namespace pm
