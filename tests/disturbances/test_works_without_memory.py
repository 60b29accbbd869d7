"""A MemoryError at any allocation is raised and leaves modes, locks and later results intact."""

from __future__ import annotations

import copy
import os
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from tests.disturbances.works import WORKS, model, state
from tests.kernels.guarded.memory import Guard

OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam")
# With --slow each allocation fails once; otherwise only each seventh allocation does.
every = pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])


def in_child(check: Callable[[Guard], None]) -> None:
    """Run `check` in a forked process, in which a Guard can make allocations of arrays fail."""
    guard = Guard()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            warnings.simplefilter("ignore")
            guard.serve()
            check(guard)
            status = 0
        except BaseException:
            os.write(writing, traceback.format_exc().encode())
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        told = file.read()
    assert os.waitpid(child, 0)[1] == 0, told


def run_short(guard: Guard, number: int, work: Callable[[], object]) -> bool:
    """Run `work` and let allocation `number` fail; return whether the work reached it."""
    guard.fail_at(number)
    try:
        work()
    except MemoryError:
        pass
    else:
        assert not guard.has_failed(), f"the error of allocation {number} went nowhere"
    failed = guard.has_failed()
    guard.fail_at(None)
    return failed


@pytest.mark.one_in(4)
@every
@pytest.mark.parametrize("name", WORKS)
def test_a_work_that_runs_out_of_memory_says_so_and_leaves_all_as_it_was(
    name: str, stride: int
) -> None:
    def check(guard: Guard) -> None:
        before, work = state(), WORKS[name]
        expected, number = work(), 0
        while run_short(guard, number, work):
            assert state() == before, f"allocation {number}"
            assert work() == expected, f"allocation {number}"
            number += stride
        assert number or name in ("default_dtype",)

    in_child(check)


@pytest.mark.one_in(3)
@every
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_that_runs_out_of_memory_leaves_one_parameter_in_part_at_most(
    name: str, stride: int
) -> None:
    def prepared() -> tuple[Any, list[Any]]:
        parameters = list(model().parameters())
        optimizer = getattr(fd.optim, name)(parameters, lr=0.1)
        for _ in range(2):
            for one in parameters:
                one.grad = one.detach().cos()
            optimizer.step()
        return optimizer, parameters

    def arrays_of(optimizer: Any, parameter: Any) -> list[Any]:
        kept = optimizer.state[parameter]
        found = [kept[key] for key in kept if isinstance(kept[key], fd.Tensor) and kept[key].dim()]
        return [one.tolist() for one in (parameter, *found)]

    def check(guard: Guard) -> None:
        optimizer, parameters = prepared()
        old = [arrays_of(optimizer, one) for one in parameters]
        optimizer.step()
        new = [arrays_of(optimizer, one) for one in parameters]
        number, failed = 0, True
        while failed:
            optimizer, parameters = prepared()
            saved = copy.deepcopy(optimizer.state_dict()), [one.clone() for one in parameters]
            versions = [one._version for one in parameters]
            failed = run_short(guard, number, optimizer.step)
            found = [arrays_of(optimizer, one) for one in parameters]
            places = range(len(parameters))
            in_part = [i for i in places if found[i] not in (old[i], new[i])]
            assert len(in_part) <= 1, f"allocation {number}: {in_part}"
            for i in places:
                is_new_version = parameters[i]._version > versions[i]
                assert found[i][0] == old[i][0] or is_new_version, f"allocation {number}, {i}"
            optimizer.load_state_dict(saved[0])
            with fd.no_grad():
                for one, before in zip(parameters, saved[1], strict=True):
                    one.copy_(before)
            optimizer.step()
            assert [arrays_of(optimizer, one) for one in parameters] == new, f"{number}"
            number += stride
        assert number > 1

    in_child(check)
