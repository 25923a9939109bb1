/* memory.h: aligned buffers for the Cython layer.  The kernels themselves never allocate. */
#ifndef CRBM_MEMORY_H
#define CRBM_MEMORY_H

#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "crbm.h"

/* `bytes` aligned to CRBM_ALIGN, or NULL; release with free().  From half a megabyte on, buffers ask for huge pages:
 * a sweep touches each page once, and 4 kB pages cost a TLB miss and a prefetcher restart for every 1024 floats. */
static inline void *crbm_alloc(size_t bytes)
{
    const size_t huge = (size_t)1 << 21, align = bytes >= huge / 4 ? huge : CRBM_ALIGN;
    void *p = NULL;
    if (posix_memalign(&p, align, bytes ? bytes : CRBM_ALIGN) != 0)
        return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (align == huge)
        (void)madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return p;
}

#endif /* CRBM_MEMORY_H */
