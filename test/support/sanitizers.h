// Which sanitizer this program was built with, and how much less to do then.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PM_TEST_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define PM_TEST_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define PM_TEST_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define PM_TEST_TSAN 1
#endif

namespace pm::test {

#if defined(PM_TEST_TSAN)
inline constexpr unsigned slowdown = 32;
#elif defined(PM_TEST_ASAN)
inline constexpr unsigned slowdown = 8;
#else
inline constexpr unsigned slowdown = 1;
#endif

}  // namespace pm::test
