/* sync.h: the words threads share, and the clock.  GCC and Clang atomics; no C11 <stdatomic.h>, which Cython
 * cannot declare. */
#ifndef CRBM_SYNC_H
#define CRBM_SYNC_H

#include <sched.h>
#include <time.h>

/* Take the next number: each caller gets another one. */
static inline long crbm_take(long *next) { return __atomic_fetch_add(next, 1, __ATOMIC_ACQ_REL); }

/* Wait until *turn == mine, unless *cancel: then return 0.  Work is handed out in order, so the holder of
 * the lowest number never waits. */
static inline int crbm_wait_turn(long *turn, long mine, int *cancel)
{
    while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != mine) {
        if (__atomic_load_n(cancel, __ATOMIC_RELAXED))
            return 0;
        sched_yield();
    }
    return 1;
}

static inline void crbm_pass_turn(long *turn) { __atomic_fetch_add(turn, 1, __ATOMIC_RELEASE); }

static inline void crbm_raise_flag(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELAXED); }
static inline int crbm_flag(int *flag) { return __atomic_load_n(flag, __ATOMIC_RELAXED); }

/* Seconds on a clock that only goes forward. */
static inline double crbm_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif /* CRBM_SYNC_H */
