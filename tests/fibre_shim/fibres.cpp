// A CUDA block on one CPU thread: a fibre per CUDA thread, so that kernels run without a GPU.
//
// Fibres switch only at barriers. A seed shuffles the order of a warp's fibres and the order of the
// warps, and a warp runs until it waits for others. So data that a kernel reads without a necessary
// barrier was often not written yet, and a test with three seeds detects that. Blocks run one after
// another, also in shuffled order. Shared memory holds a pattern of NaNs when a block begins. A
// barrier that some threads never reach ends the launch with an error. The shim is stricter than
// the hardware in one point: threads that returned do not count as arrived at __syncthreads.
#include "fibres.hpp"

#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

dim3 gridDim, blockDim, blockIdx;

namespace fibres {
namespace {

constexpr size_t STACK_BYTES = 64 * 1024, PAGE_BYTES = 4096, GUARD_BYTES = 256;
// NaN as half, float and double (a signalling NaN as double), and a large number as an integer.
constexpr unsigned long long PATTERN = 0x7ff4dead7fa4deadULL;

// The target of a jump. The C library's longjmp also handles cancelled threads and pointer guards;
// with it, a kernel that mostly waits at barriers took a fifth longer than with GCC's builtin.
using Place = void* [5];
// GCC does not allow a jump in the function that set its target: hence noinline here and below.
[[noreturn, gnu::noinline]] void jump(Place place) { __builtin_longjmp(place, 1); }

// Stacks are reused by later fibres, because each costs system calls. The lowest page is
// inaccessible: a thread that needs more than STACK_BYTES faults instead of overwriting the heap.
struct Stack {
    char* bytes;
    bool started = false;
    Place place;

    Stack() {
        void* memory = mmap(nullptr, STACK_BYTES + PAGE_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED || mprotect(memory, PAGE_BYTES, PROT_NONE)) throw std::bad_alloc();
        bytes = static_cast<char*>(memory) + PAGE_BYTES;
    }
    ~Stack() { munmap(bytes - PAGE_BYTES, STACK_BYTES + PAGE_BYTES); }
    Stack(const Stack&) = delete;
};

struct Fibre {
    dim3 thread;
    Stack* stack;
    int lane = 0, source = 0;  // source: the lane that a shuffle reads from
    int line = 0;              // source line of the barrier where the fibre waits; 0 if it may run
    unsigned int mask = 0;     // lanes of the warp barrier where it waits; 0 for a block barrier
    bool done = false;
    unsigned char sent[16], received[16];
    bool asks_same = false;  // which lanes sent the same 8 bytes
    unsigned int same = 0;
};

std::vector<Fibre> all;
std::vector<std::unique_ptr<Stack>> stacks;
std::unique_ptr<unsigned char[]> dynamic;
Fibre* current;
Place scheduler;
void (*body)();
std::string error;

void fill(void* memory, size_t bytes) {
    auto* to = static_cast<unsigned char*>(memory);
    size_t i = 0;
    for (; i + sizeof PATTERN <= bytes; i += sizeof PATTERN) memcpy(to + i, &PATTERN, sizeof PATTERN);
    for (; i < bytes; ++i) to[i] = PATTERN >> 8 * (i % 8);
}

// Returns whether bytes that were filled with the pattern, from offset `from` on, are unchanged.
bool is_filled(const unsigned char* memory, size_t from, size_t bytes) {
    for (size_t i = from; i < from + bytes; ++i)
        if (memory[i] != static_cast<unsigned char>(PATTERN >> 8 * (i % 8))) return false;
    return true;
}

[[gnu::noinline]] void to_scheduler() {
    if (__builtin_setjmp(current->stack->place) == 0) jump(scheduler);
}

void enter() {
    for (;;) {
        body();
        current->done = true;
        to_scheduler();
    }
}

[[gnu::noinline]] void resume(Fibre& fibre) {
    current = &fibre;
    Stack& stack = *fibre.stack;
    if (__builtin_setjmp(scheduler) != 0) return;
    if (stack.started) jump(stack.place);
    stack.started = true;
    static ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack.bytes;
    context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&context, enter, 0);
    setcontext(&context);
}

// A barrier opens when all fibres that it names wait at the same line.
bool open_block() {
    for (Fibre& fibre : all)
        if (fibre.done || fibre.mask || fibre.line != all[0].line) return false;
    for (Fibre& fibre : all) fibre.line = 0;
    return true;
}

// If the barrier at which warp[first] waits can open, opens it and delivers the shuffled values.
bool open_warp(Fibre* warp, int lanes, int first) {
    const unsigned int mask = warp[first].mask;
    const int line = warp[first].line;
    auto named = [&](int i) { return (mask >> i & 1) && !warp[i].done; };
    if (!mask || !named(first)) return false;
    for (int i = 0; i < lanes; ++i)
        if (named(i) && (warp[i].mask != mask || warp[i].line != line)) return false;
    for (int i = 0; i < lanes; ++i) {
        if (!named(i)) continue;
        const int from = warp[i].source;
        fill(warp[i].received, 16);
        if (from < lanes && named(from)) memcpy(warp[i].received, warp[from].sent, 16);
        if (!warp[i].asks_same) continue;
        warp[i].same = 0;
        for (int j = 0; j < lanes; ++j)
            if (named(j) && memcmp(warp[i].sent, warp[j].sent, 8) == 0) warp[i].same |= 1u << j;
    }
    for (int i = 0; i < lanes; ++i)
        if (named(i)) warp[i].line = 0, warp[i].mask = 0;
    return true;
}

void describe_stuck() {
    std::map<std::string, int> counts;
    for (Fibre& fibre : all) {
        const std::string line = std::to_string(fibre.line);
        const char* where = fibre.mask ? "wait in their warp at line " : "wait at line ";
        ++counts[fibre.done ? "returned" : where + line];
    }
    error = "divergent barrier in block " + std::to_string(blockIdx.x) + ":";
    for (auto& [state, count] : counts) error += " " + std::to_string(count) + " " + state + ";";
}

void prepare(Shared shared) {
    all.assign(blockDim.x * blockDim.y * blockDim.z, Fibre());
    fill(dynamic.get(), shared.dynamic_bytes + GUARD_BYTES);
    fill(shared.begin, shared.end - shared.begin);
    for (unsigned int i = 0; i < all.size(); ++i) {
        Fibre& fibre = all[i];
        const unsigned int row = i / blockDim.x;
        fibre.thread = {i % blockDim.x, row % blockDim.y, row / blockDim.y};
        fibre.lane = i % warpSize;
        if (stacks.size() <= i) stacks.emplace_back(new Stack);
        fibre.stack = stacks[i].get();
    }
}

// Runs a warp until each of its fibres has returned or waits for other warps.
void run_warp(Fibre* warp, int lanes, std::mt19937_64& random) {
    std::vector<Fibre*> order;
    for (int i = 0; i < lanes; ++i) order.push_back(&warp[i]);
    for (bool opened = true; opened;) {
        std::shuffle(order.begin(), order.end(), random);
        for (Fibre* fibre : order)
            if (!fibre->done && !fibre->line) resume(*fibre);
        opened = false;
        for (int i = 0; i < lanes; ++i) opened |= open_warp(warp, lanes, i);
    }
}

bool run_block(Shared shared, std::mt19937_64& random) {
    prepare(shared);
    std::vector<size_t> warps;
    for (size_t i = 0; i < all.size(); i += warpSize) warps.push_back(i);
    do {
        std::shuffle(warps.begin(), warps.end(), random);
        for (size_t i : warps)
            run_warp(&all[i], std::min<size_t>(warpSize, all.size() - i), random);
    } while (open_block());
    if (std::any_of(all.begin(), all.end(), [](Fibre& f) { return !f.done; })) {
        describe_stuck();
        stacks.clear();  // some fibres stopped inside the kernel's body
    }
    if (!is_filled(dynamic.get(), shared.dynamic_bytes, GUARD_BYTES))
        error = "a write past the end of dynamic shared memory";
    return error.empty();
}

}  // namespace

dim3 thread() { return current->thread; }
int lane() { return current->lane; }
void* dynamic_shared() { return dynamic.get(); }

void wait(int line, unsigned int mask) {
    Fibre* self = current;
    self->line = line, self->mask = mask;
    to_scheduler();
}

void exchange(unsigned int mask, void* value, size_t bytes, int source, int line) {
    memcpy(current->sent, value, bytes);
    current->source = source;
    wait(line, mask);
    memcpy(value, current->received, bytes);
}

unsigned int same(unsigned int mask, unsigned long long value, int line) {
    Fibre* self = current;
    self->asks_same = true;
    exchange(mask, &value, sizeof value, self->lane, line);
    self->asks_same = false;
    return self->same;
}

const char* run(void (*thread_body)(), const unsigned int* geometry, Shared shared,
                unsigned long long seed) {
    body = thread_body;
    gridDim = {geometry[0], geometry[1], geometry[2]};
    blockDim = {geometry[3], geometry[4], geometry[5]};
    dynamic.reset(new unsigned char[shared.dynamic_bytes + GUARD_BYTES]);
    error.clear();
    std::mt19937_64 random(seed);
    std::vector<dim3> blocks;
    for (unsigned int z = 0; z < gridDim.z; ++z)
        for (unsigned int y = 0; y < gridDim.y; ++y)
            for (unsigned int x = 0; x < gridDim.x; ++x) blocks.push_back({x, y, z});
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (dim3& block : blocks) {
        blockIdx = block;
        if (!run_block(shared, random)) break;
    }
    return error.c_str();
}

}  // namespace fibres
