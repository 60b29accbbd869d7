// A CUDA block on one CPU thread: the part that all kernels share, which fibres.cpp defines.
#pragma once
#include <stddef.h>

struct dim3 {
    unsigned int x = 1, y = 1, z = 1;
};

// One library has these for all sources.
#pragma GCC visibility push(default)
extern dim3 gridDim, blockDim, blockIdx;
constexpr int warpSize = 32;

namespace fibres {

struct Shared {
    unsigned char *begin, *end;
    size_t dynamic_bytes;
};

dim3 thread();
int lane();
void wait(int line, unsigned int mask);  // mask 0: for the whole block
void exchange(unsigned int mask, void* value, size_t bytes, int source, int line);
unsigned int same(unsigned int mask, unsigned long long value, int line);
void* dynamic_shared();
const char* run(void (*body)(), const unsigned int* geometry, Shared shared,
                unsigned long long seed);
#pragma GCC visibility pop

}  // namespace fibres
