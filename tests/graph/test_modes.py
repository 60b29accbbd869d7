"""Grad mode as a decorator of functions and of generators, whose callers keep their own mode."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

import fastdist as fd
from fastdist.graph.modes import modes, set_grad_mode
from tests.disturbances.interrupts import each_ctrl_c


@pytest.mark.parametrize("mode", [fd.no_grad(), fd.no_grad, fd.inference_mode(), fd.inference_mode])
def test_steps_of_a_generator_do_not_record_and_its_caller_does(mode: Callable[..., Any]) -> None:
    ended = []

    @mode
    def steps() -> Generator[bool, int, str]:
        try:
            got = yield fd.is_grad_enabled()
            assert got == 3
            try:
                yield fd.is_grad_enabled()
            except KeyError:
                yield fd.is_grad_enabled()
            return "end"
        finally:
            ended.append(fd.is_grad_enabled())

    walk = steps()
    found = [next(walk), fd.is_grad_enabled(), walk.send(3), walk.throw(KeyError())]
    assert found == [False, True, False, False]
    with pytest.raises(StopIteration, match="end"):
        next(walk)
    abandoned = steps()
    next(abandoned)
    abandoned.close()
    assert ended == [False, False] and fd.is_grad_enabled()


def test_a_switch_used_as_a_decorator_speaks_of_the_function_alone() -> None:
    @fd.set_grad_enabled(False)
    def enabled() -> bool:
        return fd.is_grad_enabled()

    assert [enabled(), fd.is_grad_enabled()] == [False, True]
    with fd.no_grad():
        assert fd.enable_grad(fd.is_grad_enabled)()
    assert fd.inference_mode(False)(fd.is_grad_enabled)()


def test_ctrl_c_on_the_way_into_a_mode_leaves_the_one_before() -> None:
    for place in each_ctrl_c(lambda: fd.no_grad().__enter__):
        assert fd.is_grad_enabled(), f"place {place}"
    set_grad_mode(True)  # undo the last call, which was not interrupted
    assert modes.grad_off == 0


def test_ctrl_c_on_the_way_out_of_a_mode_brings_the_one_before() -> None:
    def prepare() -> Callable[[], object]:
        mode = fd.no_grad()
        mode.__enter__()
        return lambda: mode.__exit__(None, None, None)

    begin = 2  # before fastdist's code: the first lines of the lambda and of `__exit__`
    for place in each_ctrl_c(prepare):
        assert place < begin or fd.is_grad_enabled(), f"place {place}"
        set_grad_mode(True)
    assert modes.grad_off == 0


def test_inference_mode_takes_its_mode_by_name() -> None:
    with fd.inference_mode(mode=False):
        assert fd.is_grad_enabled()
    with fd.inference_mode(mode=True):
        assert not fd.is_grad_enabled()


@pytest.mark.parametrize(("base", "is_on"), [(fd.no_grad, False), (fd.enable_grad, True)])
def test_a_mode_whose_init_is_skipped_works(base: Any, is_on: bool) -> None:
    class Counted(base):  # type: ignore[misc]
        def __init__(self) -> None:
            self.count = 0

    with Counted() as _, Counted():
        assert fd.is_grad_enabled() is is_on
    assert fd.is_grad_enabled()
