/* sync.h: the words threads share, and the clock.  GCC and Clang atomics; no C11 <stdatomic.h>, which Cython
 * cannot declare. */
#ifndef CRBM_SYNC_H
#define CRBM_SYNC_H

#include <sched.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* Take the next number: each caller gets another one. */
static inline long crbm_take(long *next) { return __atomic_fetch_add(next, 1, __ATOMIC_ACQ_REL); }

/* What number is up, and a moment for the others. */
static inline long crbm_look(long *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline void crbm_pause(void) { sched_yield(); }
static inline void crbm_raise_flag(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELAXED); }
static inline int crbm_flag(int *flag) { return __atomic_load_n(flag, __ATOMIC_RELAXED); }

/* Put `value` into a word; returns what was there. */
static inline int crbm_exchange(int *word, int value) { return __atomic_exchange_n(word, value, __ATOMIC_ACQ_REL); }

/* OpenMP, or what a build without it amounts to. */
#ifdef _OPENMP
enum { crbm_openmp = 1 };
static inline int crbm_team_size(void) { return omp_get_num_threads(); }
static inline int crbm_max_threads(void) { return omp_get_max_threads(); }
#else
enum { crbm_openmp = 0 };
static inline int crbm_team_size(void) { return 1; }
static inline int crbm_max_threads(void) { return 1; }
#endif

/* Seconds on a clock that only goes forward. */
static inline double crbm_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif /* CRBM_SYNC_H */
