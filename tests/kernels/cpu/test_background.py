"""FASTDIST_START=numpy: NumPy computes until a thread has compiled, and the thread ends cleanly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels.cpu.processes import cache_with_runner, end_of_fork, run_forked, run_script

# A compiler that waits until `gate` is set, and large tensors.
PREPARE = """
import logging, os, sys, threading, warnings
import numpy as np
from fastdist.kernels.cpu.jit import background, waiting
from fastdist.kernels.cpu.pointwise import numba_pointwise
from fastdist.kernels.cpu.pointwise.pointwise import kernel_for
from fastdist.language.scalar import parse
compile_loop, gate, began = numba_pointwise.compile_loop, threading.Event(), threading.Event()
def slow(*args):
    began.set()
    assert gate.wait(60)
    return compile_loop(*args)
numba_pointwise.compile_loop = slow
x = np.linspace(-2, 2, 100_000, dtype=np.float32)
def run(kernel):
    out = np.empty_like(x)
    kernel.run([x], out)
    return out
def end_of_thread():
    thread = background._State.thread
    if thread is not None:
        thread.join(60)
kernel = kernel_for(parse("exp(x) * T(7)", ("x",)))
expected = np.exp(x) * np.float32(7)
"""


def run(script: str, cache: Path, start: str = "numpy") -> str:
    return run_with_cache(script, cache_with_runner(cache), start)


def run_with_cache(script: str, cache: Path, start: str) -> str:
    return run_forked(PREPARE + script, FASTDIST_CACHE_DIR=str(cache), FASTDIST_START=start)


@pytest.mark.one_in(3)
def test_numpy_serves_until_the_kernel_is_there_and_both_agree(tmp_path: Path) -> None:
    script = """
first = run(kernel)
assert not kernel._loops and (first == expected).all()
gate.set()
end_of_thread()
[loop] = kernel._loops.values()
second = run(kernel)
print(np.allclose(first, second, rtol=1e-6), loop.loop.address != 0, background._State.thread)
"""
    assert run_with_cache(script, tmp_path, "numpy") == "True True None"


@pytest.mark.one_in(3)
def test_nobody_is_told_to_wait(tmp_path: Path) -> None:
    script = """
waiting.NOTIFY_AFTER_S = 0
told = []
handler = logging.Handler()
handler.emit = told.append
logging.getLogger("fastdist").addHandler(handler)
logging.getLogger("fastdist").setLevel(logging.INFO)
gate.set()
run(kernel)
end_of_thread()
print(len(kernel._loops), told)
"""
    assert run(script, tmp_path) == "1 []"


@pytest.mark.one_in(3)
def test_without_it_a_call_waits(tmp_path: Path) -> None:
    script = "gate.set(); run(kernel); print(len(kernel._loops), background._State.thread)"
    assert run(script, tmp_path, start="") == "1 None"


@pytest.mark.one_in(3)
def test_what_the_thread_raised_is_raised_by_the_next_call_and_then_tried_again(
    tmp_path: Path,
) -> None:
    script = """
def broken(*args):
    raise MemoryError("no room for code")
numba_pointwise.compile_loop = broken
assert (run(kernel) == expected).all()
end_of_thread()
try:
    run(kernel)
except MemoryError as error:
    print(error, end="; ")
numba_pointwise.compile_loop = compile_loop
assert (run(kernel) == expected).all()
end_of_thread()
print(len(kernel._loops), np.allclose(run(kernel), expected, rtol=1e-6))
"""
    assert run(script, tmp_path) == "no room for code; 1 True"


@pytest.mark.one_in(3)
def test_where_no_thread_can_begin_numpy_goes_on_serving(tmp_path: Path) -> None:
    script = """
import threading
start, tried = threading.Thread.start, []
def full(thread):
    tried.append(thread)
    raise RuntimeError("can't start new thread")
threading.Thread.start = full
assert (run(kernel) == expected).all()
assert (run(kernel) == expected).all()
threading.Thread.start = start
assert (run(kernel) == expected).all()
gate.set()
end_of_thread()
print(len(tried), len(kernel._loops), np.allclose(run(kernel), expected, rtol=1e-6))
"""
    assert run(script, tmp_path) == "2 1 True"


ROWS = """
import threading
import fastdist as torch
from fastdist.kernels.cpu.jit import background
from fastdist.kernels.cpu.rows import long_rows
from fastdist.nn import functional as F
compiled, gate = long_rows._compiled, threading.Event()
def slow(*args):
    assert gate.wait(60)
    return compiled(*args)
long_rows._compiled = slow
torch.manual_seed(0)
x = torch.randn(300, 100, requires_grad=True)
target = torch.arange(300) % 100
def results():
    x.grad = None
    made = [x.sum(), x.sum(1), x.sum(0), x.mean(-1), x.max(), x.amax(1), x.var(1), x.norm()]
    made += [F.softmax(x, 1), F.log_softmax(x, 1), F.layer_norm(x, (100,)), F.rms_norm(x, (100,))]
    made += [F.cross_entropy(x, target), x.logsumexp(1)]
    sum([one.square().mean() for one in made]).backward()
    return [*made, x.grad]
"""


@pytest.mark.one_in(3)
def test_numpy_serves_along_rows_as_well() -> None:
    # NumPy is used even if the loops are stored, so all tests share one compilation.
    script = """
first = results()
waited = len(long_rows._compiled_later)
gate.set()
background._State.thread.join(100)
second = results()
print(waited, len(long_rows._compiled_later) > 10, end=" ")
print(all(torch.allclose(one, two, rtol=1e-4, atol=1e-6) for one, two in zip(first, second)))
"""
    told = run_forked(ROWS + script, FASTDIST_START="numpy")
    assert told == "0 True True"


def test_who_waits_goes_before_what_nobody_waits_for(tmp_path: Path) -> None:
    script = """
order = []
def first():
    began.set()
    assert gate.wait(60)
    order.append("under way")
background.compile_later("a", first)
background.compile_later("b", lambda: order.append("later"))
assert began.wait(60)
def wait():
    with waiting.compiling("mine"):
        order.append("mine")
waiter = threading.Thread(target=wait)
waiter.start()
while not waiting._State.waiters:
    os.sched_yield()
gate.set()
waiter.join(60)
end_of_thread()
print(*order, waiting._State.waiters)
"""
    assert run(script, tmp_path) == "under way mine later set()"


@pytest.mark.one_in(3)
def test_exit_waits_for_the_kernel_under_way_and_for_no_other(tmp_path: Path) -> None:
    script = """
for number in range(5):
    run(kernel_for(parse(f"x * T({number + 7})", ("x",))))
began.wait(60)
class Queue(type(background._State.wanted)):
    def clear(self):
        super().clear()
        gate.set()
background._State.wanted = Queue(background._State.wanted)
"""
    places = {"FASTDIST_CACHE_DIR": str(cache_with_runner(tmp_path)), "FASTDIST_START": "numpy"}
    assert end_of_fork(PREPARE + script, **places) == (0, "", "")
    files = [path.read_bytes() for path in (tmp_path / "objects").glob("*.object")]
    assert sum(b"\ncompile_loop\n" in content for content in files) == 1


@pytest.mark.one_in(3)
def test_fork_waits_for_the_kernel_under_way(tmp_path: Path) -> None:
    script = """
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
run(kernel)
began.wait(60)
opener = threading.Thread(target=gate.set)
opener.start()
child = os.fork()
if child == 0:
    other = kernel_for(parse("x * T(9)", ("x",)))
    good = (run(other) == x * 9).all() and np.allclose(run(kernel), expected, rtol=1e-6)
    end_of_thread()
    os._exit(0 if good and len(kernel._loops) == len(other._loops) == 1 else 1)
opener.join()
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
end_of_thread()
print(status, len(kernel._loops))
"""
    assert run(script, tmp_path) == "0 1"


@pytest.mark.one_in(3)
def test_child_forked_beside_the_thread_has_one_of_its_own(tmp_path: Path) -> None:
    script = """
import contextlib
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
background.compiling_for_nobody = contextlib.nullcontext  # or the fork would wait
for key in "ab":
    background.compile_later(key, gate.wait)
child = os.fork()
if child == 0:
    done = threading.Event()
    background.compile_later("a", done.set)
    end_of_thread()
    os._exit(0 if done.is_set() else 1)
gate.set()
end_of_thread()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(script, tmp_path) == "0"


def test_other_values_are_refused(tmp_path: Path) -> None:
    script = """
try:
    run(kernel)
except RuntimeError as error:
    print(error)
"""
    assert run(script, tmp_path, start="now") == (
        "FASTDIST_START is 'now'; expected numpy, or not to be set"
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("start", ["", "numpy"])
def test_first_large_call_loads_numba_in_the_calling_thread_only_without_it(
    tmp_path: Path, start: str
) -> None:
    script = """
import builtins, sys, threading
import fastdist as torch
importing, seen = builtins.__import__, []
def noted(name, *args, **kwargs):
    if name == "numba":
        seen.append(threading.current_thread() is threading.main_thread())
    return importing(name, *args, **kwargs)
builtins.__import__ = noted
x = torch.ones(300, 300)
x + x
from fastdist.kernels.cpu.jit import background
if (thread := background._State.thread) is not None:
    thread.join(100)
print(seen[0])
"""
    cache = cache_with_runner(tmp_path)
    told = run_script(script, FASTDIST_CACHE_DIR=str(cache), FASTDIST_START=start)
    assert told == str(start == "")
