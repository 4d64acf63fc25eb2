// Annotations that state which lock guards what. Clang checks them (`make check`, -Wthread-safety); other compilers
// see nothing. https://clang.llvm.org/docs/ThreadSafetyAnalysis.html describes each attribute.
#pragma once

#if defined(__clang__)
#define HEADRACE_ATTRIBUTE(...) __attribute__((__VA_ARGS__))
#else
#define HEADRACE_ATTRIBUTE(...)
#endif

// Of classes: a lock (CAPABILITY), and an object that holds a lock while it lives (SCOPED_CAPABILITY).
#define CAPABILITY(name) HEADRACE_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY HEADRACE_ATTRIBUTE(scoped_lockable)

// Of members: the lock that every access needs, for the member or for what it points to; the order of two locks.
#define GUARDED_BY(lock) HEADRACE_ATTRIBUTE(guarded_by(lock))
#define PT_GUARDED_BY(lock) HEADRACE_ATTRIBUTE(pt_guarded_by(lock))
#define ACQUIRED_BEFORE(...) HEADRACE_ATTRIBUTE(acquired_before(__VA_ARGS__))

// Of functions: the caller must hold the locks, must not hold them, or holds them from then on or no longer.
#define REQUIRES(...) HEADRACE_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) HEADRACE_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) HEADRACE_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) HEADRACE_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) HEADRACE_ATTRIBUTE(release_capability(__VA_ARGS__))

// For a function whose rule cannot be expressed; a comment gives the rule.
#define NO_THREAD_SAFETY_ANALYSIS HEADRACE_ATTRIBUTE(no_thread_safety_analysis)
