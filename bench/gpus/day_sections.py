"""The sections of `gpu_day`, each of which runs in its own process."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.gpus import day_jobs, gpu_bandwidth, gpu_models, on_gpu
from bench.gpus.day_report import Report
from bench.gpus.on_gpu import Gpu
from bench.harness import Case, Stopwatch, compare

ROOT: Final = Path(__file__).resolve().parents[2]
MODELS: Final = tuple(gpu_models.MODELS)

# The files with tests marked `gpu`, the newest ones first.
TESTS: Final = (
    "tests/namespace/test_vmap_random.py",
    "tests/kernels/cuda/test_convolution.py",
    "tests/distributed/process_group/test_nccl.py",
    "tests/kernels/cuda/test_on_gpu.py",
    "tests/devices/test_conformance.py",
    "tests/ops/create/test_random.py",
    "tests/ops/create/test_random_distributions.py",
    "tests/ops/pointwise/test_pointwise.py",
    "tests/ops/test_table.py",
)
# Bounds of errors, relative to the largest number: the largest of float32, and the largest and the
# smallest of TF32, whose factors have 10 bits.
FLOAT32_ERROR, TF32_ERROR, LEAST_TF32_ERROR = 1e-5, 5e-3, 3e-5
# The bound of a small op's time, relative to PyTorch's.
SMALL_OP: Final = 1.5
_CALLS_IN_A_ROW: Final = 200  # a GPU's queue has space for more


class Day(NamedTuple):
    """The number of rounds, whether there is a real GPU, and the deadline by time.monotonic().

    On the stand-in for a GPU, all sizes are small.
    """

    rounds: int
    is_real: bool
    until_s: float = math.inf


Work = Callable[[Report, Day], None]


def machine_facts(report: Report, day: Day) -> None:
    """Report the GPU, the driver and the versions, or that there is no GPU."""
    reason = on_gpu.what_is_missing()
    if reason is not None:
        report.leave_out("all sections", reason)
        return
    # On the stand-in versions do not matter, and importing torch would take a second.
    facts = on_gpu.machine() if day.is_real else {"stand-in": "fibres"}
    for name, value in facts.items():
        report.fact(name, value)
        print(f"  {name}: {value}", flush=True)
    peer = _peer(day)
    report.check("a GPU computes", True)
    if peer is None:
        report.leave_out("torch", "it is not installed, or not with CUDA: fastdist alone")


def _peer(day: Day) -> Gpu | None:
    return on_gpu.peer_gpu() if day.is_real else None


def new_numbers(report: Report, day: Day) -> None:
    """Check the accuracy of convolutions and products with TF32 and without, also in graphs."""
    import fastdist
    from fastdist.backends import cuda, cudnn

    side = 56 if day.is_real else 6
    for name, call in _calls_with_products(side).items():
        exact = call("cpu", "float64")
        for allowed in (False, True):
            cudnn.allow_tf32 = cuda.matmul.allow_tf32 = allowed
            error = max(
                float((found.double().cpu() - wanted).abs().max() / wanted.abs().max())
                for found, wanted in zip(call("cuda", "float32"), exact, strict=True)
            )
            words = f"{name}, {'TF32 allowed' if allowed else 'float32'}"
            # GPUs older than Ampere have no TF32.
            is_used = allowed and day.is_real and _capability() >= 8
            least = LEAST_TF32_ERROR if is_used else 0.0
            most = TF32_ERROR if allowed else FLOAT32_ERROR
            report.check(words, least <= error <= most, f"relative error {error:.1e}")
    cudnn.allow_tf32, cuda.matmul.allow_tf32 = True, False
    x, weight = _drawn(fastdist, "cuda", "float32", (2, 8, side, side), (16, 8, 3, 3))
    convolve = fastdist.nn.functional.conv2d
    cudnn.allow_tf32 = False
    expected = convolve(x, weight)
    graph = fastdist.cuda.CUDAGraph()
    with fastdist.cuda.graph(graph):
        found = convolve(x, weight)
    cudnn.allow_tf32 = True
    graph.replay()
    same = bool((found == expected).all())
    report.check("a captured convolution keeps its compute type", same)


def _capability() -> int:
    import fastdist

    return int(fastdist.cuda.get_device_capability()[0])


def _drawn(library: Any, device: str, dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(0)
    made = [random.standard_normal(shape) for shape in shapes]
    return [library.tensor(one).to(getattr(library, dtype)).to(device) for one in made]


def _calls_with_products(side: int) -> dict[str, Callable[[str, str], list[Any]]]:
    """Return functions by name; each returns results and gradients on a device in a dtype."""
    import fastdist

    functional = fastdist.nn.functional

    def call(work: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[str, str], list[Any]]:
        def made(device: str, dtype: str) -> list[Any]:
            leaves = [one.requires_grad_() for one in _drawn(fastdist, device, dtype, *shapes)]
            out = work(*leaves)
            (out * out).sum().backward()
            return [out.detach(), *[leaf.grad for leaf in leaves]]

        return made

    image, kernel = (4, 16, side, side), (32, 16, 3, 3)
    return {
        "conv2d": call(lambda x, w: functional.conv2d(x, w, padding=1), image, kernel),
        "conv_transpose2d": call(functional.conv_transpose2d, (4, 32, side, side), kernel),
        "matmul": call(lambda x, y: x @ y, (2 * side, 4 * side), (4 * side, side)),
        "linear": call(functional.linear, (2 * side, 4 * side), (side, 4 * side), (side,)),
    }


def new_tests(report: Report, day: Day) -> None:
    """Run the tests marked `gpu`, one file after the other, the newest first."""
    for file in TESTS if day.is_real else TESTS[:1]:
        left_s = day.until_s - time.monotonic()
        if left_s < 5:
            report.leave_out(file, "no time is left for it")
            continue
        command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-rfE", "--tb=line",
                   "-p", "no:cacheprovider", file]  # fmt: skip
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=left_s
            )
        except subprocess.TimeoutExpired as error:
            out = error.stdout or b""
            dots = out.decode() if isinstance(out, bytes) else out
            found = f"no end within {left_s:.0f} s; {dots.count('.')} had passed"
            report.check(file, "F" not in dots and "E" not in dots, found)
            continue
        lines = (done.stdout.strip() or done.stderr.strip()).splitlines() or [""]
        if done.returncode == 5:
            report.leave_out(file, "its tests need a GPU")
        else:
            failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))][:20]
            report.check(file, done.returncode == 0, "; ".join([lines[-1], *failed]))


def small_ops(report: Report, day: Day) -> None:
    """Time small ops: until the program has queued them, and until the GPU has run them."""
    ours, peer = on_gpu.our_gpu(), _peer(day)
    _time(report, day, _small_cases(ours, peer))
    if day.is_real:
        _time(report, day, [gpu_bandwidth.small_op(ours)])


def _time(report: Report, day: Day, cases: Iterable[Case]) -> None:
    """Report the rows of cases. On the stand-in, where times mean nothing, each runs once."""
    known = list(cases) if day.is_real else [replace(case, number=1) for case in cases]
    report.rows(compare(known, day.rounds, day.until_s))


_SMALL: Final[dict[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "x + y": lambda _, t: t["x"] + t["y"],
    "x * 2": lambda _, t: t["x"] * 2.0,
    "x @ y": lambda _, t: t["x"] @ t["y"],
    "linear": lambda library, t: library.nn.functional.linear(t["x"], t["y"], t["row"]),
    "sum": lambda _, t: t["x"].sum(),
    "softmax": lambda _, t: t["x"].softmax(-1),
    "x * w, recorded": lambda _, t: t["x"] * t["w"],
}


def _small_cases(ours: Gpu, peer: Gpu | None) -> Iterator[Case]:
    for name, op in _SMALL.items():
        works = [None if gpu is None else _small_work(gpu, op) for gpu in (ours, peer)]
        assert works[0] is not None
        hosts = [None if one is None else _host_time(one) for one in (ours, peer)]
        queued = [None if work is None or host is None else host(work)
                  for work, host in zip(works, hosts, strict=True)]  # fmt: skip
        assert queued[0] is not None
        yield Case(f"{name}, until queued", queued[0], queued[1], SMALL_OP)
        ended = None if peer is None or works[1] is None else peer.stopwatch(works[1])
        yield Case(f"{name}, between events", ours.stopwatch(works[0]), ended, SMALL_OP)
    for name, length in (("a Node, there and back", 50),):
        watches = [None if gpu is None else gpu.stopwatch(_chain(gpu, length))
                   for gpu in (ours, peer)]  # fmt: skip
        assert watches[0] is not None
        yield Case(name, watches[0], watches[1], SMALL_OP, parts=length)


def _small_work(gpu: Gpu, op: Callable[[Any, dict[str, Any]], Any]) -> Callable[[], object]:
    tensors = {"x": gpu.tensor(8, 8), "y": gpu.tensor(8, 8), "row": gpu.tensor(8)}
    tensors["w"] = gpu.tensor(8, 8, grad=True)
    return lambda: op(gpu.library, tensors)


def _chain(gpu: Gpu, length: int) -> Callable[[], object]:
    x, w = gpu.tensor(8, 8), gpu.tensor(8, 8, grad=True)

    def work() -> None:
        t = w
        for _ in range(length):
            t = t * x
        w.grad = None
        t.sum().backward()

    return work


def _host_time(gpu: Gpu) -> Callable[[Callable[[], object]], Stopwatch]:
    """Return a function that makes stopwatches of the program's own time.

    A stopwatch makes some calls at a time. Then it waits for the GPU, without timing the wait, so
    that the GPU's queue never fills.
    """

    def stopwatch(work: Callable[[], object]) -> Stopwatch:
        def watch(number: int) -> float:
            seconds = 0.0
            for start in range(0, number, _CALLS_IN_A_ROW):
                gpu.library.cuda.synchronize()
                before = time.perf_counter()
                for _ in range(min(_CALLS_IN_A_ROW, number - start)):
                    work()
                seconds += time.perf_counter() - before
            gpu.library.cuda.synchronize()
            return seconds

        return watch

    return stopwatch


def model_section(name: str) -> Work:
    """Return the section of a model: its eager and captured steps, against torch's."""

    def steps(report: Report, day: Day) -> None:
        ours, peer = on_gpu.our_gpu(), _peer(day)
        if peer is None:
            report.leave_out(f"{name}, torch", "it is not installed, or not with CUDA")
        chosen = {name: gpu_models.MODELS[name]}
        found = gpu_models.cases(ours, peer, tiny=not day.is_real, models=chosen, compiles=False)
        _time(report, day, found)

    return steps


def continuations(report: Report, day: Day) -> None:
    """Measure passes CPU -> GPU -> CPU of two processes."""
    day_jobs.continuations(report, is_real=day.is_real, until_s=day.until_s)


def nccl(report: Report, day: Day) -> None:
    """Check and time NCCL's collectives, on all GPUs."""
    day_jobs.nccl(report, is_real=day.is_real, until_s=day.until_s)


def every_op(report: Report, day: Day) -> None:
    """Compare as many ops with the CPU as the time allows."""
    from bench.gpus import first_contact

    known = first_contact.proofs_first(first_contact.samples())
    known = known if day.is_real else known[:3]
    passed, total = 0, 0
    for verdict in first_contact.checks(known, "cuda:0", day.until_s):
        if verdict.name.endswith(" samples"):
            report.leave_out(verdict.name, "the time was not enough for them")
            continue
        total += 1
        passed += verdict.passed
        if not verdict.passed:
            report.check(verdict.name, verdict.passed, verdict.found)
        if not day.is_real and total == len(known):
            break  # the next check starts a process that needs a GPU
    report.check("every op gives what the CPU gives", passed == total, f"{passed} of {total}")
