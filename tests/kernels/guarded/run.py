"""Make guarded calls in forked processes, and report their faults."""

# Valid calls load the kernels before the fork. One process then makes all calls, since a process
# per call would spend its time on loading. If a call ends the process, the next process continues
# with the call after it.

from __future__ import annotations

import itertools
import mmap
import os
import resource
import signal
import struct
import warnings
from collections.abc import Callable, Iterator

import numpy as np

import fastdist as fd

from . import index_calls, layout_calls, loss_calls, row_calls, shape_calls, window_calls
from .draw import KINDS, Call, Draw, tensors_in
from .memory import CANARY, Guard

_FAMILIES = index_calls, layout_calls, loss_calls, row_calls, shape_calls, window_calls
# Errors that a call may raise, with a message. Other errors, such as AttributeError, are our bugs.
ERRORS = (
    RuntimeError,
    ValueError,
    IndexError,
    TypeError,
    OverflowError,
    NotImplementedError,
    MemoryError,
    AssertionError,  # from multi_head_attention_forward, as in PyTorch
)
_LIMIT_S = 60
_MEMORY_BYTES = 1 << 30

Place = tuple[str, int]


def places(first: int, count: int) -> list[Place]:
    """Return count calls as pairs of kind and number, cycling through the kinds."""
    every = ((name, number) for number in itertools.count(first) for name in KINDS)
    return list(itertools.islice(every, count))


def failures(calls: list[Place], warm: int = 0) -> Iterator[str]:
    """Make calls, and yield a description of each fault, with the command that repeats it."""
    guard = Guard()
    _load_kernels(warm)
    at = mmap.mmap(-1, 8)
    done = 0
    while done < len(calls):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _serve(guard, calls, done, at, writing)
        os.close(writing)
        with open(reading, encoding="utf-8") as lines:
            yield from map(str.rstrip, lines)
        status = os.waitpid(child, 0)[1]
        if status == 0:
            return
        place = struct.unpack("q", at[:])[0]
        ending = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else status
        yield _in_words(calls[place], f"the process ended: {ending}")
        done = place + 1


def make(name: str, number: int, *, only_right: bool = False) -> Call:
    """Return a call of a kind; the number determines all random choices."""
    draw = Draw(name, number, only_right=only_right)
    fd.manual_seed(draw.number(0, 2**31))
    return KINDS[name](draw)


def fault_of(
    call: Call, guard: Guard, show: Callable[[str], object] = lambda _: None
) -> str | None:
    """Make one call, show its outcome, and return its fault, if any."""
    changed = guard.num_changed()
    error, found = None, None
    try:
        found = call.run()
        show(f"{found}\n")
    except ERRORS as raised:
        error = raised
        show(f"{type(error).__name__}: {error}\n")
        error.__traceback__ = None  # an exception keeps arrays alive
    except Exception as raised:
        return f"raised {type(raised).__name__}: {raised}"
    if call.is_wrong is False and error is not None and not isinstance(error, MemoryError):
        return f"refused right numbers: {type(error).__name__}: {error}"
    if call.is_wrong and error is None:
        return "took wrong numbers without an error"
    if any(map(_holds_canaries, tensors_in(found))):
        return "the result has elements that nobody wrote"
    del found, call, error
    if guard.num_changed() != changed:
        return "wrote in front of an array, or behind it"
    return None


def _load_kernels(warm: int) -> None:
    guard = Guard()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, number in places(0, warm * len(KINDS)):
            fault_of(make(name, number, only_right=True), guard)


def _serve(guard: Guard, calls: list[Place], first: int, at: mmap.mmap, writing: int) -> None:
    """Make the calls from `first` on, write their faults, and end the process."""
    status = 1
    try:
        warnings.simplefilter("ignore")
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY_BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        guard.serve()
        for place in range(first, len(calls)):
            at[:] = struct.pack("q", place)
            signal.alarm(_LIMIT_S)
            fault = _fault_at(calls[place], guard)
            signal.alarm(0)
            if fault is not None:
                os.write(writing, f"{_in_words(calls[place], fault)}\n".encode())
        status = 0
    finally:
        os._exit(status)


def _fault_at(place: Place, guard: Guard) -> str | None:
    try:
        call = make(*place)
    except MemoryError:
        return None  # the arguments are larger than the memory limit
    except Exception as error:
        return f"could not be made: {type(error).__name__}: {error}"
    return fault_of(call, guard)


def _holds_canaries(tensor: fd.Tensor) -> bool:
    layout = tensor._layout
    if layout.is_sparse or layout.dtype not in (fd.float32, fd.float64) or layout.numel > 10**6:
        return False
    array = np.ascontiguousarray(tensor.detach().resolve_neg().numpy())
    words = array.view(np.uint8).reshape(-1, array.itemsize)
    return bool((words == CANARY).all(1).any())


def _in_words(call: Place, fault: str) -> str:
    name, number = call
    short = " ".join(fault.split())[:300]
    return f"{name} {number}: {short}; repeat: python -m tests.kernels.guarded {name} {number}"
