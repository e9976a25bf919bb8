// PM(UCX) under the conformance suite.
#include "conform/conformance.h"
#include "conform/ucx_kit.h"

namespace pm::conform {
namespace {

PM_CONFORMANCE(Ucx, UcxKits);

}  // namespace
}  // namespace pm::conform
