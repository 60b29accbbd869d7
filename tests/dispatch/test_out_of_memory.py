"""Calls that run out of memory raise an error that is a RuntimeError and a MemoryError."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd

HUGE = 1 << 40
MANY = 1 << 45  # as float32, half of the address space
CALLS: dict[str, Callable[[], Any]] = {
    "empty": lambda: fd.empty(MANY),
    "zeros": lambda: fd.zeros(MANY),
    "arange": lambda: fd.arange(MANY),
    "rand": lambda: fd.rand(MANY),
    "add": lambda: fd.ones(1).expand(MANY) + 1,
    "clone": lambda: fd.ones(1).expand(MANY).clone(),
    "to": lambda: fd.ones(1).expand(MANY).double(),
    "matmul": lambda: fd.ones(1 << 22, 1) @ fd.ones(1, 1 << 23),
    "cat": lambda: fd.cat([fd.ones(1).expand(MANY)] * 2),
    "pad": lambda: fd.nn.functional.pad(fd.ones(1), (MANY, 0)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CALLS)
def test_both_errors_catch_it(name: str) -> None:
    for kind in (RuntimeError, MemoryError, fd.OutOfMemoryError):
        with pytest.raises(kind, match="can't allocate memory: Unable to allocate"):
            CALLS[name]()


@pytest.mark.parametrize("shape", [(1 << 61,), (1 << 62, 8)])
def test_a_size_that_no_number_holds_is_told_as_such(shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match=r"Storage size calculation overflowed with sizes=\["):
        fd.empty(shape, dtype=fd.float64)


UNCOUNTABLE: dict[str, Callable[[], Any]] = {
    "zeros": lambda: fd.zeros(HUGE, HUGE),
    "rand": lambda: fd.rand(HUGE, HUGE),
    "eye": lambda: fd.eye(HUGE),
    "clone": lambda: fd.ones(1).expand(HUGE, HUGE).clone(),
    "add": lambda: fd.ones(1).expand(HUGE, HUGE) + 1,
    "repeat": lambda: fd.ones(1).repeat(HUGE, HUGE),
}


@pytest.mark.parametrize("name", UNCOUNTABLE)
def test_what_numpy_says_of_such_a_size_is_told_in_those_words(name: str) -> None:
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        UNCOUNTABLE[name]()


LOOP = """
import resource
import fastdist as fd
x, y = fd.ones(1024, 1, requires_grad=True), fd.ones(1, 1024, requires_grad=True)
calls = {
    "pointwise": lambda: x * y,
    "product": lambda: x @ y,
    "backward": lambda: fd.autograd.grad((x @ y).exp().sum(dim=(0, 1)), x, create_graph=True),
}
for call in calls.values():
    call()
with open("/proc/self/statm") as file:
    in_use = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (64 << 20),) * 2)
for name, call in calls.items():
    kept = []
    try:
        for _ in range(100):
            kept.append(call())
    except RuntimeError as error:
        assert isinstance(error, MemoryError), error
        print(name, len(kept) > 1)
"""


def test_a_call_that_went_well_before_says_it_too() -> None:
    """Test the short paths, which only later calls take."""
    found = subprocess.run(
        [sys.executable, "-c", LOOP], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.split() == ["pointwise", "True", "product", "True", "backward", "True"]
