/* embed.h: the embedding interface, as crbm_fast/cython_api.pyx sees it.  Contracts: crbm_fast/include/crbm_fast.h. */
#ifndef CRBM_EMBED_H
#define CRBM_EMBED_H

#include "crbm.h"
#include "crbm_fast.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const crbm_fast_api crbm_embed_api;

/* Where init gets its kernels; set before the first call. */
extern const crbm_kernels *(*crbm_embed_kernels)(int itemsize);

#ifdef __cplusplus
}
#endif

#endif /* CRBM_EMBED_H */
