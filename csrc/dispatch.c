/* dispatch.c: which kernel tables this build has and which of them this CPU can run.
 *
 * The build defines CRBM_HAVE_<isa> for every instruction set it compiled; the features asked for here are those of
 * the flags in isas.json.
 */
#include <string.h>

#include "crbm.h"

#define CRBM_TABLES(isa) extern const crbm_kernels crbm_kernels_##isa##_32, crbm_kernels_##isa##_64;
#define CRBM_ENTRY(isa, runs) {&crbm_kernels_##isa##_32, &crbm_kernels_##isa##_64, runs}

#ifdef CRBM_HAVE_avx512
CRBM_TABLES(avx512)
static int runs_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif
#ifdef CRBM_HAVE_avx2
CRBM_TABLES(avx2)
static int runs_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif
#ifdef CRBM_HAVE_neon
CRBM_TABLES(neon)
#endif
#ifdef CRBM_HAVE_baseline
CRBM_TABLES(baseline)
#endif
static int runs_everywhere(void) { return 1; }

static const struct {
    const crbm_kernels *f32, *f64;
    int (*runs)(void);
} entries[] = {     /* best first */
#ifdef CRBM_HAVE_avx512
    CRBM_ENTRY(avx512, runs_avx512),
#endif
#ifdef CRBM_HAVE_avx2
    CRBM_ENTRY(avx2, runs_avx2),
#endif
#ifdef CRBM_HAVE_neon
    CRBM_ENTRY(neon, runs_everywhere),
#endif
#ifdef CRBM_HAVE_baseline
    CRBM_ENTRY(baseline, runs_everywhere),
#endif
};
enum { n_entries = sizeof entries / sizeof entries[0] };

const char *crbm_isa_name(int i)
{
    for (int e = 0; e < n_entries; e++)
        if (entries[e].runs() && i-- == 0)
            return entries[e].f32->isa;
    return NULL;
}

const crbm_kernels *crbm_select(const char *isa, int itemsize)
{
    for (int e = 0; e < n_entries; e++)
        if (entries[e].runs() && (isa == NULL || strcmp(isa, entries[e].f32->isa) == 0))
            return itemsize == 4 ? entries[e].f32 : itemsize == 8 ? entries[e].f64 : NULL;
    return NULL;
}
