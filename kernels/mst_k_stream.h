
/*
 * The type of a stream as CUDA's headers have it, for headers whose arithmetic
 * is also compiled where there is no toolkit (t/unit).
 */

#ifndef MST_K_STREAM_H
#define MST_K_STREAM_H


typedef struct CUstream_st  *cudaStream_t;


#endif /* MST_K_STREAM_H */
