"""The list of CuPy calls to test first on a GPU is complete, and each call has a sample."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from bench.gpus.first_contact import Sample, samples, values_on
from bench.gpus.library_calls import KERNELS, PROVEN_BY, calls_of, library_calls
from fastdist.kernels.cpu.small.call_facts import KERNELS as SMALL

CPU = str(KERNELS.with_name("cpu"))


@pytest.fixture(scope="module")
def known() -> dict[str, Sample]:
    return {one.name: one for one in samples()}


def kernels_of(one: Sample) -> set[tuple[str, str]]:
    """Return the functions of kernels/cpu that a sample calls, in forward and backward."""
    called = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    call = values_on("cpu", one)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    found = set()
    for code in called:
        if code.co_filename.startswith(CPU):
            file = Path(code.co_filename).stem
            found.add((file, code.co_name))
            # A call of an inner function counts as one of its outer function, named as the kernel.
            maker = code.co_qualname.partition(".")[0]
            found.add((file, maker.removeprefix("_")))
            found.update(made_for(file, maker))
    return found


def made_for(file: str, maker: str) -> Iterator[tuple[str, str]]:
    """Yield the kernels, as (file, function), whose variants for small arrays `maker` builds."""
    for name, function in SMALL.items():
        code = getattr(function, "__code__", None)
        if code is not None and (Path(code.co_filename).stem, code.co_name) == (file, maker):
            module, kernel = name.split(".")[-2:]
            yield module, kernel


def test_every_call_of_a_library_has_a_sample_that_proves_it() -> None:
    assert library_calls() == PROVEN_BY.keys()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", sorted({sample for _, sample in PROVEN_BY.values()}))
def test_a_sample_comes_to_the_calls_that_it_proves(name: str, known: dict[str, Sample]) -> None:
    reached = set().union(*map(calls_of, kernels_of(known[name])))
    assert {call for call, (_, sample) in PROVEN_BY.items() if sample == name} <= reached
