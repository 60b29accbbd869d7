"""A profile adds no instruction to code that it does not record.

These tests read every bytecode that a call executes. No bytecode belongs to the profiler or checks
whether a profile records. After a profile with all options, a call executes the same bytecodes as
before.
"""

from __future__ import annotations

import dis
import functools
import gc
import os
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

import fastdist as fd
from fastdist.distributed import autograd as dist_autograd
from fastdist.distributed import profiler as group_profiler
from fastdist.distributed import rpc
from fastdist.instrumentation.time_ranges import Wanted, time_ranges
from fastdist.kernels.cpu.pointwise.multi_tensor import STEPS_BEFORE_A_LOOK
from fastdist.profiler import profile
from tests.distributed.workers import run_group
from tests.disturbances.opcodes import call_traced

ROOT = os.path.join(os.path.dirname(fd.__file__), "")
ROOMS = ("instrumentation", "profiler", "distributed/profiler")
FILES = (
    *("interpreters/timing.py", "interpreters/device_work.py"),
    *("nn/module_ranges.py", "autograd/profiler.py", "optim/step_ranges.py"),
)
OF_THE_PROFILER = (
    *[os.path.join(ROOT, room, "") for room in ROOMS],
    *[os.path.join(ROOT, file) for file in FILES],
)
# Names that code uses to check whether a profile records, or to report to a profile.
WORDS = {
    "time_ranges", "time_range", "memory_meter", "module_path", "python_stack", "should_time",
    "_ranges",
}  # fmt: skip

Step = tuple[CodeType, int]


def executed(call: Callable[[], object]) -> list[Step]:
    """Return each bytecode that this thread executes during a call, in order."""
    steps: list[Step] = []

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if event == "opcode":
            steps.append((frame.f_code, frame.f_lasti))
        return trace

    gc.collect()
    gc.disable()  # a finalizer could run in any line
    try:
        call_traced(trace, call)
    finally:
        gc.enable()
    return steps


@functools.cache
def words_of(code: CodeType) -> dict[int, object]:
    return {step.offset: step.argval for step in dis.get_instructions(code)}


def concerning(steps: list[Step]) -> list[str]:
    """Return the steps that belong to the profiler or report to it, as text."""
    found = []
    for code, place in steps:
        word = words_of(code).get(place)
        if code.co_filename.startswith(OF_THE_PROFILER) or (
            isinstance(word, str) and word in WORDS
        ):
            found.append(f"{code.co_filename}: {code.co_qualname}: {word}")
    return found


def profile_everything() -> None:
    """Record a call in a profile with all options."""
    everything = {"record_shapes", "with_flops", "with_stack", "profile_memory", "with_modules"}
    with profile(**dict.fromkeys(everything, True)) as p:
        assert time_ranges.wanted == Wanted(*[True] * 5, device=False)
        fd.nn.Linear(2, 2)(fd.ones(3, 2)).sum().backward()
    assert p.events() and time_ranges.wanted == Wanted()


X = fd.ones(3, 2, requires_grad=True)
LAYER = fd.nn.Sequential(fd.nn.Linear(2, 2), fd.nn.Tanh())
SGD = fd.optim.SGD(LAYER.parameters(), lr=0.1)
LAYER(X).sum().backward()
CALLS: dict[str, Callable[[], object]] = {
    "pointwise": X.exp,
    "operator": lambda: X * X + 1.0,
    "structured": lambda: X @ X.T,
    "view": lambda: fd.ones(3, 2)[1:].reshape(-1),
    "in place": lambda: fd.ones(3).add_(1.0),
    "module": lambda: LAYER(X),
    "backward": lambda: (X * X).sum().backward(),
    "grad": lambda: fd.autograd.grad((X * X).sum(), [X]),
    "optimizer": SGD.step,
    "no grad": fd.no_grad()(lambda: LAYER(X)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_executes_what_it_did_before_and_nothing_of_the_profilers(name: str) -> None:
    call = CALLS[name]
    # The first calls fill caches that later calls use. In its 50th step, the program of an
    # optimiser looks in the cache for its launch (STEPS_BEFORE_A_LOOK).
    for _ in range(STEPS_BEFORE_A_LOOK + 3):
        call()
    before = executed(call)
    assert len(before) > 10 and concerning(before) == []
    profile_everything()
    call()
    assert executed(call) == before


def test_the_profilers_own_instructions_are_seen_where_it_records() -> None:
    with profile():
        steps = executed(CALLS["pointwise"])
    assert any("_ranges" in one for one in concerning(steps))


class _Seen:
    """Collects the files of all functions that run in threads started after `install`."""

    def __init__(self) -> None:
        self.files: set[str] | None = None

    def install(self) -> None:
        threading.setprofile(self._hear)

    def _hear(self, frame: FrameType, event: str, arg: object) -> None:
        files = self.files  # another thread may set it to None
        if files is not None and event == "call":
            files.add(frame.f_code.co_filename)


seen = _Seen()


def begin_to_see() -> None:
    seen.files = set()


def end_to_see() -> set[str]:
    files, seen.files = seen.files, None
    assert files
    return {*files}


def served(x: fd.Tensor) -> fd.Tensor:
    return x


def calls() -> Iterator[Callable[[], object]]:
    x = fd.ones(3)
    yield lambda: rpc.rpc_sync("worker1", len, ("abc",))
    yield lambda: rpc.rpc_sync("worker1", served, (x,))
    yield lambda: rpc.rpc_sync("worker1", fd.add, (x, x))
    yield lambda: rpc.rpc_async("worker1", served, (x,)).wait()
    yield lambda: rpc.remote("worker1", served, (x,)).to_here()
    yield in_context


def in_context() -> None:
    with dist_autograd.context() as context_id:
        y = rpc.rpc_sync("worker1", served, (X,))
        dist_autograd.backward(context_id, [y.sum()])


def require_untouched() -> None:
    """Check calls on the caller and on the worker that serves them.

    The bytecodes are not compared, because calls that wait may take another path each time.
    """
    for call in calls():
        call()
        steps = executed(call)
        assert len(steps) > 100 and concerning(steps) == []
        rpc.rpc_sync("worker1", begin_to_see)
        call()
        files = rpc.rpc_sync("worker1", end_to_see)
        assert any("distributed/rpc" in file for file in files), files
        own = [file for file in files if file.startswith(OF_THE_PROFILER)]
        assert not own, own


def calls_of_a_worker() -> None:
    rank = int(os.environ["RANK"])
    seen.install()
    try:
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
        if rank == 0:
            require_untouched()
            with profile(with_stack=True, with_modules=True, profile_memory=True) as p:
                rpc.rpc_sync("worker1", served, (fd.ones(3),))
            assert any(event.is_remote for event in p.events()) or p.events()
            with group_profiler.profile() as everyone:
                rpc.rpc_sync("worker1", served, (fd.ones(3),))
            assert everyone.events()
            require_untouched()
        rpc.shutdown()
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]


def test_a_call_to_another_worker_executes_nothing_of_the_profilers_on_either_side() -> None:
    run_group(calls_of_a_worker, 2)
