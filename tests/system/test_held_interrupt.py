"""A Ctrl-C that arrives while a kernel is compiled is raised afterwards, and is never lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from fastdist.system.held_interrupt import interrupt_held
from tests.kernels.cpu.processes import run_script

# The script interrupts itself in the callback by which LLVM hands over the compiled code.
SCRIPT = """
import signal
import numpy as np
from numba.core.codegen import JITCodeLibrary
hook = JITCodeLibrary._object_compiled_hook
def interrupted(module, code):
    if pending:
        signal.raise_signal(pending.pop())
    hook(module, code)
JITCodeLibrary._object_compiled_hook = interrupted
from fastdist.kernels.cpu.jit import kernel_cache, launch
load = kernel_cache.Recorder.load
def interrupted_load(recorder, code):
    if pending:
        signal.raise_signal(pending.pop())
    return load(recorder, code)
kernel_cache.Recorder.load = interrupted_load
from fastdist.kernels.cpu.pointwise import numba_pointwise
from fastdist.language.scalar import parse
body, dtype = parse("x * T(5)", ("x",)), np.dtype(np.float32)
compile_loop = lambda: numba_pointwise.compile_loop(body.tree, body.names, [dtype], dtype)
for compile_it in (compile_loop, launch._runner):
    pending = [signal.SIGINT]
    try:
        compile_it()
    except KeyboardInterrupt:
        print("interrupted", end=" ")
    assert not pending
    print(compile_it() is not None, end=" ")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.fixture
def handled() -> Iterator[list[str]]:
    """Yield a list; a SIGINT handler appends the name of the function that it interrupts."""
    names: list[str] = []

    def handle(_: int, frame: FrameType | None) -> None:
        names.append(frame.f_code.co_name if frame else "")

    former = signal.signal(signal.SIGINT, handle)
    yield names
    signal.signal(signal.SIGINT, former)


def test_interrupt_inside_the_compiler_is_raised_after_it(tmp_path: Path) -> None:
    told = run_script(SCRIPT, FASTDIST_CACHE_DIR=str(tmp_path))
    assert told == "interrupted True interrupted True True"


def test_handler_is_called_once_when_the_block_is_left(handled: list[str]) -> None:
    with interrupt_held(), interrupt_held():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert handled == []
    assert handled == ["test_handler_is_called_once_when_the_block_is_left"]


def test_handler_stands_again_when_the_block_is_left_by_an_error(handled: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), interrupt_held():
        _ = 1 // 0
    signal.raise_signal(signal.SIGINT)
    assert len(handled) == 1


def test_other_thread_leaves_the_handler_alone(handled: list[str]) -> None:
    found: list[bool] = []

    def look() -> None:
        before = signal.getsignal(signal.SIGINT)
        with interrupt_held():
            found.append(signal.getsignal(signal.SIGINT) is before)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(10)
    assert found == [True]


@pytest.mark.parametrize("action", [signal.SIG_IGN, signal.SIG_DFL])
def test_action_that_is_no_handler_is_left_alone(
    handled: list[str], action: signal.Handlers
) -> None:
    signal.signal(signal.SIGINT, action)
    with interrupt_held():
        assert signal.getsignal(signal.SIGINT) is action


def test_a_child_that_is_forked_meanwhile_has_the_handler() -> None:
    with interrupt_held():
        child = os.fork()
        if child == 0:
            os._exit(0 if signal.getsignal(signal.SIGINT) is signal.default_int_handler else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
