// The negative log likelihood, and its gradient. loss.py puts before this file: memory.cuh,
// typedefs of Stored, Target (classes), Real (computed) and Sum (losses and weights before they are
// added), DIMS, the number of target's axes, and WEIGHED: whether there are weights.
//
// A thread computes one sample's loss, or one element of the gradient. The loss of a class that is
// out of range is NaN.

constexpr int THREADS = 256;

struct Task {
    long long count, classes, ignored, divides;
    long long step_class, step_weight;
    // Shape and strides of x or its gradient without the classes; by_sample: strides of the losses
    // or their gradients.
    long long shape[DIMS], step_x[DIMS], step_target[DIMS], by_sample[DIMS];
};

__device__ long long at(long long sample, const Task& task, const long long* steps) {
    return offset_of<unsigned long long, DIMS>(sample, task.shape, steps);
}

__device__ Real weight_of(const Stored* weight, long long chosen, const Task& task) {
    if constexpr (WEIGHED) return cast<Real>(weight[chosen * task.step_weight]);
    return Real(1);
}

extern "C" __global__ void __launch_bounds__(THREADS)
nll(const Stored* x, const Target* target, const Stored* weight, Out* losses, Sum* weights,
    Task task) {
    const long long sample = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (sample >= task.count) return;
    const long long chosen = target[at(sample, task, task.step_target)];
    Real loss = Real(0), by = Real(0);
    if (chosen != task.ignored) {
        if (chosen < 0 || chosen >= task.classes) {
            loss = Real(__longlong_as_double(0x7ff8000000000000LL)), by = Real(1);
        } else {
            by = weight_of(weight, chosen, task);
            x += at(sample, task, task.step_x);
            loss = -(cast<Real>(x[chosen * task.step_class]) * by);
        }
    }
    losses[at(sample, task, task.by_sample)] = cast<Out>(loss);
    weights[sample] = Sum(by);
}

// Computes the sum of all losses, or their mean.
extern "C" __global__ void __launch_bounds__(THREADS)
reduced(const Sum* losses, const Sum* weights, Out* out, Out* total, long long is_mean) {
    if (threadIdx.x) return;
    *total = cast<Out>(*weights);
    *out = cast<Out>(is_mean ? *losses / *weights : *losses);
}

extern "C" __global__ void __launch_bounds__(THREADS)
nll_gradient(const Stored* g, const Target* target, const Stored* weight, const Stored* total,
             Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.count * task.classes) return;
    // Adjacent threads write adjacent elements: classes are along the second axis.
    const long long inner = task.count / task.shape[0];
    const long long sample = number / inner / task.classes * inner + number % inner;
    const long long own = number / inner % task.classes;
    const long long chosen = target[at(sample, task, task.step_target)];
    Real slope = Real(0);
    if (chosen == own && chosen != task.ignored) {
        slope = -cast<Real>(g[at(sample, task, task.by_sample)]);
        if (task.divides) slope /= cast<Real>(*total);
        slope *= weight_of(weight, chosen, task);
    }
    out[at(sample, task, task.step_x) + own * task.step_class] = cast<Stored>(slope);
}
