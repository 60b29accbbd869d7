"""A Tensor subclass with units, written with `__torch_function__` as users do."""

from __future__ import annotations

import pytest

import fastdist as fd
from tests import units


def test_operators_functions_and_methods_carry_the_units() -> None:
    way, time = units.of([6.0, 9.0], m=1), units.of([2.0, 3.0], s=1)
    speed = way / time
    assert repr(speed) == "[3.0, 3.0] m s^-1"
    assert repr((speed * time).sum()) == "15.0 m"
    assert repr(fd.stack([way, way]).reshape(-1)[1:3]) == "[9.0, 6.0] m"
    assert repr(2 / time) == "[1.0, 0.6666666865348816] s^-1"
    assert repr(fd.sqrt(way.square())) == "[6.0, 9.0] m"
    assert repr(fd.ones(2) @ way) == "15.0 m"


def test_units_that_do_not_go_together_are_an_error() -> None:
    way, time = units.of([6.0, 9.0], m=1), units.of([2.0, 3.0], s=1)
    for wrong in (
        lambda: way + time,
        lambda: fd.ones(2) - way,
        lambda: way < time,
        way.exp,
        lambda: fd.nn.functional.softmax(way, 0),
        lambda: way.add_(1.0),
    ):
        with pytest.raises(units.UnitError):
            wrong()


def test_gradients_pass_numbers_with_units() -> None:
    seconds = fd.tensor([2.0, 3.0], requires_grad=True)
    time = units.of(seconds, s=1)
    way = units.of(9.81, m=1, s=-2) * time.square() / 2
    assert units.shown(way.unit) == "m"
    way.sum().backward()
    assert seconds.grad is not None
    assert seconds.grad.tolist() == pytest.approx([2 * 9.81, 3 * 9.81])
