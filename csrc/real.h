/* real.h: the real type that a file is being compiled for: CRBM_REAL is 32 or 64. */
#ifndef CRBM_REAL_H
#define CRBM_REAL_H

#if CRBM_REAL == 32
typedef float real;
#else
typedef double real;
#endif

#endif /* CRBM_REAL_H */
