"""Waits for the compiler are announced once; threads, forks and processes wait for each other."""

from __future__ import annotations

import gc
import io
import logging
import os
import select
import sys
import threading
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pytest

import fastdist
import fastdist.autograd.graph
from fastdist.kernels.cpu.jit import waiting
from fastdist.kernels.cpu.jit.compiler import compiled
from tests.kernels.cpu.processes import begin_fork, cache_with_runner, run_forked, run_script

DEADLINE_S = 60


class Told(logging.Handler):
    """Collects log lines, with an event for their arrival."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.came.set()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """Yield the log of waits, with every wait counted as long."""
    monkeypatch.setattr(waiting, "NOTIFY_AFTER_S", 0)
    monkeypatch.setattr(waiting._State, "was_notified", False)
    handler, logger = Told(), logging.getLogger(waiting.__name__)
    logger.addHandler(handler)
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    yield handler
    logger.removeHandler(handler)
    logger.manager._clear_cache()  # type: ignore[attr-defined]


@pytest.fixture
def terminal() -> Iterator[tuple[int, TextIO]]:
    """Yield both ends of a terminal: a descriptor to read, and a stream to write."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    with os.fdopen(theirs, "w") as stderr:
        yield ours, stderr
    os.close(ours)


def read_line(terminal: int) -> str:
    line = b""
    while not line.endswith(b"\n"):
        assert select.select([terminal], [], [], DEADLINE_S)[0], line
        line += os.read(terminal, 1)
    return line.decode()


def wait_for(what: str, told: Told) -> None:
    told.came.clear()
    with waiting.compiling(what):
        assert told.came.wait(DEADLINE_S)


def test_a_person_is_told_once_and_the_log_each_time(
    told: Told, terminal: tuple[int, TextIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, stderr = terminal
    monkeypatch.setattr(sys, "stderr", stderr)
    with waiting.compiling("the kernel x + y"):
        line = read_line(screen)
    assert line.startswith("fastdist: waiting for the compiler: the kernel x + y; ")
    assert "`fastdist info --warm`" in line
    wait_for("the kernel x * y", told)
    assert [words.split("; ")[0] for words in told.lines] == [
        "waiting for the compiler: the kernel x + y",
        "waiting for the compiler: the kernel x * y",
    ]
    assert not select.select([screen], [], [], 0)[0]


def test_what_is_no_terminal_gets_no_line(told: Told, capfd: pytest.CaptureFixture[str]) -> None:
    wait_for("the kernel x + y", told)
    assert capfd.readouterr() == ("", "")
    assert len(told.lines) == 1


class CellStream(io.StringIO):
    """A replacement for Jupyter's stderr."""

    __module__ = "ipykernel.iostream"


def test_a_notebook_gets_the_line(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = CellStream()
    monkeypatch.setattr(sys, "stderr", cell)
    with waiting.compiling("the kernel x + y"):
        assert told.came.wait(DEADLINE_S)
    assert cell.getvalue().startswith("fastdist: waiting for the compiler: the kernel x + y; ")


def test_waits_inside_a_wait_are_of_it(told: Told) -> None:
    with waiting.waiting_for("all"):
        assert told.came.wait(DEADLINE_S)
        with waiting.compiling("a part"):
            names = [thread.name for thread in threading.enumerate()]
    assert names.count("fastdist-waiting") <= 1
    assert [line.split("; ")[0] for line in told.lines] == ["waiting for the compiler: all"]


def test_short_wait_is_not_told(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "NOTIFY_AFTER_S", 3600)
    with waiting.compiling("the kernel x + y"):
        pass
    assert told.lines == []


def test_a_wait_is_told_after_half_a_second() -> None:
    given: list[float | None] = []

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            given.append(timeout)
            return True  # the event was set before the timeout

    waiting._watch(Over(), "the kernel x + y")
    assert given == [0.5]


def test_it_says_where_nothing_can_be_kept(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "cache_directory", lambda name: None)
    wait_for("the kernel x + y", told)
    assert "each process compiles it again" in told.lines[0]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of announced waits, however short."""
    found: list[str] = []
    monkeypatch.setattr(waiting, "_watch", lambda over, what: found.append(what))
    return found


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ((np.ones(2, np.float32),), "the kernel of a sample in float32"),
        ((np.ones(2, np.int64),), "the kernel of a sample in int64"),
        ((3,), "the kernel of a sample"),
    ],
)
def test_a_kernel_is_named_by_its_op_and_dtype(
    waits: list[str], given: tuple[Any, ...], what: str
) -> None:
    @compiled("a sample")
    def _run(x: Any) -> Any:
        return x

    _run(*given)
    assert waits == [what]


def test_a_wait_within_an_op_names_it(waits: list[str]) -> None:
    def compile_something(value: Any) -> Any:
        with waiting.compiling("the kernel of a sample"):
            return value

    x = fastdist.ones(2, requires_grad=True)
    with fastdist.autograd.graph.saved_tensors_hooks(compile_something, compile_something):
        x.tanh().sum().backward()
    assert waits == [
        "the kernel of a sample, for tanh",
        "the kernel of a sample, for the gradient of tanh",
    ]


def test_a_kernel_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="says what a kernel is for"):
        compiled()
    assert callable(compiled(inline=True)) and callable(compiled(alone=False))


FIRST_CALLS = """
import logging
import fastdist as fd
from fastdist.kernels.cpu.jit import waiting
waiting.NOTIFY_AFTER_S, told = 0, []
class Told(logging.Handler):
    def emit(self, record):
        told.append(record.getMessage().split(": ")[1].split("; ")[0])
logger = logging.getLogger(waiting.__name__)
logger.addHandler(Told())
logger.setLevel(logging.INFO)
x = fd.ones(1, 1, 256, 256, requires_grad=True)
x.grad = fd.ones(1, 1, 256, 256)
%s
print(told)
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("x.detach().softmax(-1)", "softmax of float32 along rows, for softmax"),
        ("fd.optim.SGD([x], 0.1).step()", "a step over many tensors of float32"),
    ],
)
def test_first_call_of_all_is_one_wait_with_the_loading_of_numba(
    call: str, what: str, tmp_path: Path
) -> None:
    assert run_script(FIRST_CALLS % call, FASTDIST_CACHE_DIR=str(tmp_path)) == str([what])


@pytest.mark.parametrize("was_enabled", [True, False])
def test_collector_rests_meanwhile_and_is_as_before_after_it(was_enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if was_enabled else gc.disable)()
    try:
        with waiting.compiling("it"), waiting.compiling("a part"):
            assert not gc.isenabled()
        assert gc.isenabled() is was_enabled
    finally:
        (gc.enable if before else gc.disable)()


TWO_THREADS = """
import threading
import numpy as np
from fastdist.kernels.cpu.pointwise import numba_pointwise
from fastdist.kernels.cpu.pointwise.pointwise import kernel_for
from fastdist.language.scalar import parse
compile_loop, compiled = numba_pointwise.compile_loop, []
def counted(*args):
    compiled.append(args)
    return compile_loop(*args)
numba_pointwise.compile_loop = counted
kernel, gate, x = kernel_for(parse("x * T(7)", ("x",))), threading.Barrier(2), np.ones(100_000)
def run(out):
    gate.wait(60)
    kernel.run([x], out)
outs = [np.empty_like(x) for _ in range(2)]
threads = [threading.Thread(target=run, args=(out,)) for out in outs]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(compiled), all((out == 7).all() for out in outs))
"""


@pytest.mark.one_in(3)
def test_two_threads_that_want_one_kernel_compile_it_once(tmp_path: Path) -> None:
    assert run_forked(TWO_THREADS, FASTDIST_CACHE_DIR=str(cache_with_runner(tmp_path))) == "1 True"


PROCESS = """
import sys
import numpy as np
from fastdist.kernels.cpu.pointwise.pointwise import kernel_for
from fastdist.language.scalar import parse
kernel, x = kernel_for(parse("x * T(7)", ("x",))), np.ones(100_000)
print("ready", flush=True)
sys.stdin.readline()
kernel.run([x], x)
[launch] = kernel._loops.values()
print((x == 7).all(), launch.loop.was_cached)
"""


@pytest.mark.one_in(3)
def test_two_processes_that_want_one_kernel_at_once_both_get_it(tmp_path: Path) -> None:
    place = {"FASTDIST_CACHE_DIR": str(cache_with_runner(tmp_path))}
    both = []
    for _ in range(2):
        (theirs_to_read, go), (ready, theirs_to_write) = os.pipe(), os.pipe()
        process = begin_fork(PROCESS, (theirs_to_read, theirs_to_write, 2), **place)
        os.close(theirs_to_read)
        os.close(theirs_to_write)
        both.append((process, go, open(ready)))  # noqa: SIM115
    for _, _, said in both:
        assert said.readline() == "ready\n"
    for _, go, _ in both:
        os.write(go, b"\n")
        os.close(go)
    ends = []
    for process, _, said in both:
        with said:
            ends.append((said.read().split()[0], process.wait(DEADLINE_S)))
    assert ends == [("True", 0), ("True", 0)]
    third = f"import io, sys; sys.stdin = io.StringIO('\\n'){PROCESS}"
    assert run_forked(third, **place) == "ready\nTrue True"


FORK = """
import os, threading, warnings
import numpy as np
from fastdist.kernels.cpu.jit import waiting
from fastdist.kernels.cpu.pointwise.pointwise import kernel_for
from fastdist.language.scalar import parse
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
inside, over, x = threading.Event(), [], np.ones(100_000)
def compile_it(number):
    out = np.empty_like(x)
    kernel_for(parse(f"x * T({number})", ("x",))).run([x], out)
    return (out == number).all()
def other():
    with waiting.compiling("what another thread wants"):
        inside.set()
        compile_it(7)
        over.append(True)
thread = threading.Thread(target=other)
thread.start()
inside.wait(60)
child = os.fork()
if child == 0:
    os._exit(0 if over and compile_it(9) else 1)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), compile_it(5))
"""


@pytest.mark.one_in(3)
def test_fork_waits_for_the_kernel_that_another_thread_compiles(tmp_path: Path) -> None:
    assert run_forked(FORK, FASTDIST_CACHE_DIR=str(cache_with_runner(tmp_path))) == "0 True"


@pytest.mark.one_in(3)
def test_a_fork_during_which_the_handlers_are_registered_releases_nothing() -> None:
    script = """
import logging, os, sys
import fastdist
imports = lambda: __import__("fastdist.kernels.cpu.jit.waiting")
assert "fastdist.kernels.cpu.jit.waiting" not in sys.modules
os.register_at_fork(before=imports)
failed, statuses = [], []
sys.unraisablehook = failed.append
for _ in range(2):
    child = os.fork()
    if child == 0:
        os._exit(len(failed))
    statuses.append(os.waitpid(child, 0)[1])
print(failed, statuses)
"""
    assert run_script(script) == "[] [0, 0]"
