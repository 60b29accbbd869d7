"""Free memory in malloc's heaps is returned to the system; other C libraries are not changed."""

from __future__ import annotations

import ctypes
import sys
from typing import get_type_hints

import pytest

from fastdist.examples.stopwatch import Range
from fastdist.system import unused_memory
from tests.kernels.cpu.processes import run_script

# Allocate blocks of 64 KB and free every second one, but none at the end of the heap.
HOLES = """
import ctypes
from fastdist.system.unused_memory import release_unused_memory
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
blocks = [libc.malloc(1 << 16) for _ in range(512)]
for block in blocks:
    ctypes.memset(block, 1, 1 << 16)
for block in blocks[::2]:
    libc.free(block)
before = resident()
release_unused_memory()
print(before - resident() > 12e6, ctypes.string_at(blocks[1], 1 << 16) == b"\\1" * (1 << 16))
"""


def test_holes_between_blocks_are_given_back_and_blocks_stay() -> None:
    keeps_holes = hasattr(ctypes.CDLL(None), "malloc_trim") and sys.platform == "linux"
    assert run_script(HOLES) == f"{keeps_holes} True"


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused_memory, "_malloc_trim", lambda: None)
    unused_memory.release_unused_memory()


def test_named_tuples_keep_the_texts_of_their_annotations_and_nothing_compiled() -> None:
    unused_memory.release_unused_memory()
    assert Range.__annotations__ == {
        "worker": "str", "kind": "str", "start_s": "float", "end_s": "float",
    }  # fmt: skip
    assert get_type_hints(Range)["end_s"] is float
