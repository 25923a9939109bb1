/* machine_limits.c: what one core of this machine can do, for the roof above the kernels' figures.
 *
 * Prints, for the vector width and the flags it is compiled with: nanoseconds per float of a multiply-add and
 * of a division (throughput, 12 independent chains), and per byte of a sweep that reads two float arrays and
 * writes one of them back (what a BP iteration moves) for arrays of the given sizes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef float vec __attribute__((vector_size(VBYTES)));
enum { LANES = VBYTES / 4, CHAINS = 12 };
#ifdef __aarch64__
#define KEEP(x) "+w"(x)
#else
#define KEEP(x) "+x"(x)
#endif

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile float sink;

static double arithmetic(int divide)
{
    double best = 1e9;
    for (int repeat = 0; repeat < 15; repeat++) {
        vec x[CHAINS], m = 0.999f - (vec){0}, a = 0.001f - (vec){0};
        for (int i = 0; i < CHAINS; i++)
            x[i] = (float)(i + 1) - (vec){0};
        const long rounds = divide ? 100000 : 500000;
        const double start = now();
        for (long r = 0; r < rounds; r++)
            for (int i = 0; i < CHAINS; i++) {
                x[i] = divide ? m / x[i] : x[i] * m + a;
                __asm__ volatile("" : KEEP(x[i]));      /* keep the rounds apart */
            }
        const double t = (now() - start) / ((double)rounds * CHAINS * LANES);
        best = t < best ? t : best;
        for (int i = 0; i < CHAINS; i++)
            sink = x[i][0];
    }
    return best;
}

static double sweep(size_t floats)
{
    vec *a = aligned_alloc(4096, floats * 4), *b = aligned_alloc(4096, floats * 4);
    const size_t n = floats / LANES;
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] = 1.0f - (vec){0};
    double best = 1e9;
    const int rounds = (int)(200000000 / (12 * floats)) + 1;
    for (int repeat = 0; repeat < 7; repeat++) {
        const double start = now();
        for (int r = 0; r < rounds; r++) {
            for (size_t i = 0; i < n; i++)
                a[i] = a[i] * 0.5f + b[i];
            __asm__ volatile("" : : "r"(a) : "memory");
        }
        const double t = (now() - start) / ((double)rounds * (double)floats * 12);
        best = t < best ? t : best;
    }
    free(a);
    free(b);
    return best;
}

int main(int argc, char **argv)
{
    printf("{\"multiply_add_ns\": %.5f, \"division_ns\": %.5f, \"sweep_ns_per_byte\": {", 1e9 * arithmetic(0),
           1e9 * arithmetic(1));
    for (int i = 1; i < argc; i++)
        printf("%s\"%s\": %.5f", i > 1 ? ", " : "", argv[i], 1e9 * sweep((size_t)atol(argv[i]) / 1024 * 1024));
    printf("}}\n");
    return 0;
}
