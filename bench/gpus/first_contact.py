"""The first test of a GPU: every op against the CPU, streams, random numbers; PASS or FAIL.

Each op and composite of the table test is called on the GPU and on the CPU, forward and backward in
float64. The line of an op shows the largest error relative to the largest number, and the time of a
call with compiled kernels; all kernels are compiled beforehand, on all cores. Ops that call
libraries which the tests replace by NumPy come first (library_calls.py). At the end, ops are
compared with the bandwidth of a copy, as in the benchmark `gpu`. This file imports the tests, so it
needs a checkout.
"""

from __future__ import annotations

import importlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from bench.gpus import gpu_bandwidth, other_process
from bench.gpus.library_calls import PROVEN_BY
from bench.gpus.on_gpu import machine, our_gpu, what_is_missing
from bench.harness import Failed, Row, compare

__all__ = ["machine", "run"]

# The largest relative error in float64. A GPU's functions are accurate to a few units in the last
# place, and a GPU adds in another order than a CPU.
MOST_ERROR = 1e-9
CALLS = 20
MINUTES = 5
BANDWIDTH_S = 60.0  # the part of MINUTES reserved for the bandwidth rows


class Sample(NamedTuple):
    """A call of the table test with its arguments.

    float64 and complex128 arrays get gradients if the call is differentiable.
    """

    name: str
    call: Callable[..., Any]
    arrays: Sequence[Any]
    differentiable: bool
    most_error: float = MOST_ERROR


class Verdict(NamedTuple):
    """Whether a check passed, and the details."""

    name: str
    passed: bool
    found: str

    def __str__(self) -> str:
        return f"{'PASS' if self.passed else 'FAIL'}  {self.name}  {self.found}".rstrip()


def run(rounds: int) -> list[Row]:
    """Print a line for each check; return the rows of the bandwidth cases.

    Raises  Failed that names the checks that failed, or were not reached in 5 minutes
    """
    reason = what_is_missing()
    if reason is not None:
        print(f"no figures: {reason}")
        return []
    until_s = time.monotonic() + MINUTES * 60
    failed = []
    print("first, calls of libraries that no GPU has run:", flush=True)
    for verdict in checks(proofs_first(samples()), until_s=until_s - BANDWIDTH_S):
        print(f"{verdict}{what_it_proves(verdict.name)}", flush=True)
        if not verdict.passed:
            failed.append(verdict.name)
    ours = our_gpu()
    rows = compare([*gpu_bandwidth.cases(ours), gpu_bandwidth.small_op(ours)], rounds, until_s)
    if failed:
        raise Failed(f"{len(failed)} failed: {', '.join(failed)}", rows)
    return rows


def samples() -> Iterator[Sample]:
    """Yield the calls of the table test."""
    cases = importlib.import_module("tests.ops.cases")
    for module in cases.case_modules():
        for name, calls in module.CASES.items():
            for number, one in enumerate(calls):
                title = f"{name}-{number}"
                yield Sample(title, one.ours, one.arrays(f"{title} first"), one.differentiable)
    pointwise = importlib.import_module("tests.ops.pointwise.test_pointwise")
    for row in pointwise.ROWS.values():
        arrays = pointwise.sample(row, pointwise.SHAPES[0])
        yield Sample(row.name, pointwise.function_of(row), arrays, row.differentiable)
    yield from _rows_of_integers_and_conditions(sorted(pointwise.INTEGER_ROWS))
    yield _attention_of_halves()
    yield from _rows_of_complex_numbers()


def _rows_of_complex_numbers() -> Iterator[Sample]:
    """Yield the first complex case of each op that has one.

    Ops whose result has an arbitrary phase, which the library chooses, are left out.
    """
    fibres = importlib.import_module("tests.ops.test_complex_on_fibres")
    firsts: dict[str, str] = {}
    for name in fibres.TAKEN:
        firsts.setdefault(fibres.op_of(name), name)
    for op, name in firsts.items():
        if op in ("linalg.eigh", "linalg.svd", "svd"):
            continue
        known = fibres.SAMPLES[name]
        arrays = known.arrays("complex128")
        yield Sample(f"{name} complex", fibres.call_of(name), arrays, known.is_differentiable)


def _rows_of_integers_and_conditions(names: Sequence[str]) -> Iterator[Sample]:
    import numpy as np

    import fastdist

    random = np.random.default_rng(0)
    for name in names:
        count = 1 if name == "bitwise_not" else 2
        arrays = [random.integers(0, 60, 12) for _ in range(count)]
        yield Sample(name, getattr(fastdist, name), arrays, differentiable=False)
    x, y, chosen = random.standard_normal(12), random.standard_normal(12), random.random(12) > 0.5
    yield Sample("where", fastdist.where, [chosen, x, y], differentiable=True)
    yield Sample("masked_fill", fastdist.masked_fill, [x, chosen, y[0]], differentiable=True)


def _attention_of_halves() -> Sample:
    """Return a sample of float16 attention, which sums products in float32 instead of float64."""
    import numpy as np

    import fastdist

    def call(*given: Any) -> Any:
        halves = [one.to(fastdist.float16) for one in given]
        attend = fastdist.nn.functional.scaled_dot_product_attention
        return attend(*halves).to(fastdist.float64)

    random = np.random.default_rng(0)
    arrays = [random.standard_normal((2, 2, 40, 16)) for _ in range(3)]
    return Sample("attention of float16", call, arrays, differentiable=True, most_error=1e-2)


def proofs_first(known: Iterable[Sample]) -> list[Sample]:
    """Return the samples: first those that call a library, as ordered in PROVEN_BY."""
    places: dict[str, int] = {}
    for place, (_, name) in enumerate(PROVEN_BY.values()):
        places.setdefault(name, place)
    return sorted(known, key=lambda one: places.get(one.name, len(PROVEN_BY)))


def what_it_proves(name: str) -> str:
    """Return the end of a sample's line: the library calls that this sample makes first."""
    calls = [f"{call} ({whose})" for call, (whose, sample) in PROVEN_BY.items() if sample == name]
    return f"  by {', '.join(calls)}" if calls else ""


def checks(
    known: Sequence[Sample], device: str = "cuda:0", until_s: float = math.inf
) -> Iterator[Verdict]:
    """Yield a verdict for each sample, and for streams, random numbers and shared memory.

    If time.monotonic() reaches until_s, one failed verdict stands for all remaining samples.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        at_work = [pool.submit(_agrees, one, device) for one in known]
        for place, found in enumerate(at_work):
            left_s = until_s - time.monotonic()
            if left_s <= 0 or wait([found], min(left_s, threading.TIMEOUT_MAX)).not_done:
                pool.shutdown(wait=False, cancel_futures=True)
                left = len(known) - place
                yield Verdict(
                    f"{left} samples", False, f"{MINUTES} minutes were too short for them"
                )
                break
            verdict, again = found.result()
            yield verdict if again is None else _timed(verdict, again, device)
    for check in (_on_a_side_stream, _random_numbers, _in_another_process):
        try:
            yield check(device)
        except Exception as error:
            yield _raised(check.__name__.strip("_").replace("_", " "), error)


def _agrees(one: Sample, device: str) -> tuple[Verdict, Callable[[], object] | None]:
    """Return whether the results on device and CPU are equal, and a function to repeat the call."""
    try:
        expected = values_on("cpu", one)()
        call = values_on(device, one)
        found = call()
    except Exception as error:
        return _raised(one.name, error), None
    # Relative to the largest of all arrays, because the gradients of some samples, such as the sum
    # of softmax, consist of rounding errors only.
    scale = max(map(_largest, expected), default=0.0)
    # A result that is zero except for rounding errors is compared with the inputs instead.
    given = max(map(_largest, one.arrays), default=0.0)
    if scale < MOST_ERROR * given:
        scale = given
    error = max([_error(*pair, scale) for pair in zip(found, expected, strict=False)], default=0.0)
    passed = len(found) == len(expected) and error <= one.most_error
    return Verdict(one.name, passed, f"relative error {error:.1e}"), call


def _raised(name: str, error: Exception) -> Verdict:
    first = (str(error).splitlines() or [""])[0]
    return Verdict(name, False, f"{type(error).__name__}: {first}")


def values_on(device: str, one: Sample) -> Callable[[], list[Any]]:
    """Return a function that makes the call on a device, and returns results and gradients as
    arrays.
    """
    import fastdist

    leaves: list[Any] = []
    for array in one.arrays:
        needs = one.differentiable and array.dtype.kind in "fc"
        leaves.append(fastdist.tensor(array, device=device, requires_grad=needs))

    def call() -> list[Any]:
        for leaf in leaves:
            leaf.grad = None
        result = one.call(*leaves)
        if one.differentiable and result.requires_grad:
            real = fastdist.view_as_real(result.resolve_conj()) if result.is_complex() else result
            real.sum().backward()
        made = [result.detach(), *[leaf.grad for leaf in leaves if leaf.grad is not None]]
        return [tensor.resolve_conj().cpu().numpy() for tensor in made]

    return call


def _largest(array: Any) -> float:
    import numpy as np

    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def _error(found: Any, expected: Any, scale: float) -> float:
    """Return the largest difference relative to a scale.

    It is inf if only one of the arrays has a NaN or an infinity at some position.
    """
    import numpy as np

    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    if found.dtype.kind not in "fc":
        return 0.0 if np.array_equal(found, expected) else float("inf")
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(found - expected))
    worst = np.where(np.isnan(difference), np.inf, difference).max(initial=0.0)
    return float(worst / max(scale, 1e-300)) if worst else 0.0


def _timed(verdict: Verdict, call: Callable[[], object], device: str) -> Verdict:
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    each_us = (time.perf_counter() - start) / CALLS * 1e6
    return verdict._replace(found=f"{verdict.found}  {each_us:.0f} us there and back")


def _on_a_side_stream(device: str) -> Verdict:
    """Return whether work on a side stream has the same results as on the current stream."""
    import fastdist

    x = fastdist.randn(256, 256, device=device, requires_grad=True)

    def work() -> list[Any]:
        x.grad = None
        y = (x @ x).relu().softmax(1)
        (y * y).sum().backward()
        return [y.detach(), x.grad]

    expected = [tensor.cpu() for tensor in work()]
    side = fastdist.cuda.Stream(device)
    side.wait_event(fastdist.cuda.current_stream(device).record_event())
    with fastdist.cuda.stream(side):
        found = work()
    fastdist.cuda.current_stream(device).wait_event(side.record_event())
    same = [fastdist.equal(one.cpu(), other) for one, other in zip(found, expected, strict=True)]
    return Verdict("on a side stream", all(same), "the same bits" if all(same) else "other bits")


def _in_another_process(device: str) -> Verdict:
    """Return whether another process can read memory of this process's GPU, as cuda_ipc does."""
    return Verdict("in another process", *other_process.reads_this_one(device))


def _random_numbers(device: str) -> Verdict:
    """Return whether the device generates the same random numbers as the CPU."""
    import fastdist

    drawn = []
    for where in (device, "cpu"):
        fastdist.manual_seed(7)
        drawn.append(
            [
                fastdist.rand(1000, device=where).cpu(),
                fastdist.randint(0, 1 << 40, (1000,), device=where).cpu(),
                fastdist.randn(1000, device=where, dtype=fastdist.float64).cpu(),
            ]
        )
    (uniform, places, normal), (cpu_uniform, cpu_places, cpu_normal) = drawn
    error = _error(normal.numpy(), cpu_normal.numpy(), 1.0)
    passed = fastdist.equal(uniform, cpu_uniform) and fastdist.equal(places, cpu_places)
    return Verdict("random numbers", passed and error < 1e-12, f"normals to {error:.1e}")
