
/*
 * Functions that kernels and the CPU share: "static inline MST_HD".
 */

#ifndef MST_HD_H
#define MST_HD_H

#ifdef __CUDACC__
#define MST_HD  __host__ __device__
#else
#define MST_HD
#endif

#endif /* MST_HD_H */
