"""Resumed schedulers and closed forms; the expected numbers are results of PyTorch 2.13."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import fastdist
from fastdist import optim
from fastdist.optim import lr_scheduler

# These tests only read learning rates, so optimisers do not step, and schedulers would warn.
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler.step:UserWarning")

Make = Callable[[optim.Optimizer, int], lr_scheduler.LRScheduler]

# (1) The constructor with a `last_epoch`. (2) For each last epoch, the rates after resuming and
# after one and two steps. (3) A new scheduler's rates after step(6), step(4), step(1) and step(0).
ROWS: list[tuple[Make, dict[int, list[float]], list[float]]] = [
    (
        lambda o, k: lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1), last_epoch=k),
        {
            0: [0.5, 0.333333333, 0.25],
            2: [0.25, 0.2, 0.166666667],
            4: [0.166666667, 0.142857143, 0.125],
            6: [0.125, 0.111111111, 0.1],
        },
        [0.142857143, 0.2, 0.5, 1.0],
    ),
    (
        lambda o, k: lr_scheduler.MultiplicativeLR(o, lambda e: 0.9 - 0.01 * e, last_epoch=k),
        {
            0: [1.0, 0.88, 0.7656],
            2: [0.7832, 0.673552, 0.5725192],
            4: [0.58599024, 0.492231802, 0.408552395],
            6: [0.418397031, 0.343085566, 0.277899308],
        },
        [0.84, 0.7224, 0.642936, 0.5786424],
    ),
    (
        lambda o, k: lr_scheduler.StepLR(o, 3, 0.5, last_epoch=k),
        {0: [1.0, 1.0, 0.5], 2: [0.5, 0.5, 0.5], 4: [0.5, 0.25, 0.25], 6: [0.25, 0.25, 0.125]},
        [0.25, 0.5, 1.0, 1.0],
    ),
    (
        lambda o, k: lr_scheduler.MultiStepLR(o, [2, 2, 5], 0.5, last_epoch=k),
        {
            0: [1.0, 0.25, 0.25],
            2: [0.25, 0.25, 0.125],
            4: [0.125, 0.125, 0.125],
            6: [0.125, 0.125, 0.125],
        },
        [0.125, 0.25, 1.0, 1.0],
    ),
    (
        lambda o, k: lr_scheduler.ConstantLR(o, 0.5, 4, last_epoch=k),
        {0: [0.5, 0.5, 0.5], 2: [0.5, 1.0, 1.0], 4: [1.0, 1.0, 1.0], 6: [1.0, 1.0, 1.0]},
        [1.0, 1.0, 0.5, 0.5],
    ),
    (
        lambda o, k: lr_scheduler.LinearLR(o, 0.25, 0.9, 6, last_epoch=k),
        {
            0: [0.25, 0.325581395, 0.401162791],
            2: [0.466666667, 0.554589372, 0.642512077],
            4: [0.683333333, 0.776842105, 0.776842105],
            6: [0.9, 0.9, 0.9],
        },
        [0.9, 0.683333333, 0.358333333, 0.25],
    ),
    (
        lambda o, k: lr_scheduler.ExponentialLR(o, 0.9, last_epoch=k),
        {
            0: [1.0, 0.9, 0.81],
            2: [0.81, 0.729, 0.6561],
            4: [0.6561, 0.59049, 0.531441],
            6: [0.531441, 0.4782969, 0.43046721],
        },
        [0.531441, 0.6561, 0.9, 1.0],
    ),
    (
        lambda o, k: lr_scheduler.PolynomialLR(o, 7, 2.0, last_epoch=k),
        {
            0: [1.0, 0.694444444, 0.444444444],
            2: [0.510204082, 0.286989796, 0.12755102],
            4: [0.183673469, 0.0459183673, 0.0],
            6: [0.0204081633, 0.0204081633, 0.0204081633],
        },
        [0.0204081633, 0.183673469, 0.734693878, 1.0],
    ),
    (
        lambda o, k: lr_scheduler.CosineAnnealingLR(o, 5, 0.01, last_epoch=k),
        {
            0: [1.0, 0.72637073, 0.388146351],
            2: [0.657963412, 0.189092682, 0.01],
            4: [0.104536588, 0.199073176, 0.694073176],
            6: [0.104536588, 0.189092682, 0.2575],
        },
        [0.104536588, 0.104536588, 0.905463412, 1.0],
    ),
    (
        lambda o, k: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2, 0.01, last_epoch=k),
        {
            0: [0.7525, 0.2575, 1.0],
            2: [1.0, 0.933682575, 0.7525],
            4: [0.7525, 0.505, 0.2575],
            6: [0.933682575, 0.7525, 0.505],
        },
        [0.505, 0.933682575, 0.7525, 1.0],
    ),
]


def optimizer(lr: float = 1.0) -> optim.SGD:
    return optim.SGD([fastdist.zeros(1, requires_grad=True)], lr=lr)


def after(make: Make, epochs: int) -> tuple[optim.SGD, lr_scheduler.LRScheduler]:
    stepped = optimizer()
    scheduler = make(stepped, -1)
    for _ in range(epochs):
        scheduler.step()
    return stepped, scheduler


def next_rates(scheduler: lr_scheduler.LRScheduler, count: int) -> list[float]:
    found = scheduler.get_last_lr()
    for _ in range(count - 1):
        scheduler.step()
        found = [*found, *scheduler.get_last_lr()]
    return found


@pytest.mark.parametrize(("make", "resumed", "_"), ROWS)
def test_last_epoch_goes_on_from_the_rates_that_are_there(
    make: Make, resumed: dict[int, list[float]], _: Any
) -> None:
    for epoch, expected in resumed.items():
        goes_on = optimizer()
        goes_on.load_state_dict(after(make, epoch)[0].state_dict())
        assert next_rates(make(goes_on, epoch), 3) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("make", "_", "closed"), ROWS)
def test_a_given_epoch_has_the_rate_of_the_closed_form(
    make: Make, _: Any, closed: list[float]
) -> None:
    scheduler = after(make, 0)[1]
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for epoch in (6, 4, 1, 0):
            scheduler.step(epoch)
            found += scheduler.get_last_lr()
    assert found == pytest.approx(closed, rel=1e-8)


@pytest.mark.parametrize(("make", "_", "__"), ROWS)
def test_a_state_dict_goes_on_with_the_rates_of_a_run_that_never_stopped(
    make: Make, _: Any, __: Any
) -> None:
    for epoch in range(9):
        changed, scheduler = after(make, epoch)
        goes_on = optimizer()
        then = make(goes_on, -1)
        goes_on.load_state_dict(changed.state_dict())
        then.load_state_dict(copy.deepcopy(scheduler.state_dict()))
        assert next_rates(then, 8) == next_rates(scheduler, 8)


def test_an_epoch_that_is_given_brings_pytorchs_warning() -> None:
    with pytest.warns(UserWarning, match="The epoch parameter in `scheduler.step\\(\\)` was not"):
        lr_scheduler.StepLR(optimizer(), 3).step(4)


def test_warm_restarts_take_a_fraction_of_an_epoch() -> None:
    scheduler = lr_scheduler.CosineAnnealingWarmRestarts(optimizer(), 3, 2, 0.01)
    scheduler.step(4.25)  # type: ignore[arg-type]
    assert scheduler.get_last_lr() == pytest.approx([0.8977099034])
    assert (scheduler.T_cur, scheduler.T_i, scheduler.last_epoch) == (1.25, 6, 4)
    with pytest.raises(ValueError, match="Expected non-negative epoch, but got -1"):
        scheduler.step(-1)


def test_an_object_in_the_place_of_a_function_is_saved() -> None:
    class Decay:
        base = 0.5

        def __call__(self, epoch: int) -> float:
            return self.base**epoch

    decay = Decay()
    decay.base = 0.25
    saved = lr_scheduler.LambdaLR(optimizer(), decay).state_dict()
    goes_on = lr_scheduler.LambdaLR(optimizer(), Decay())
    goes_on.load_state_dict(saved)
    goes_on.step()
    assert saved["lr_lambdas"] == [{"base": 0.25}] and goes_on.get_last_lr() == [0.25]


def test_sequential_may_begin_with_the_second_and_hold_another() -> None:
    changed = optimizer()
    inner = lr_scheduler.SequentialLR(
        changed,
        [lr_scheduler.ConstantLR(changed, 0.5, 2), lr_scheduler.StepLR(changed, 2)],
        [2],
    )
    joined = lr_scheduler.SequentialLR(
        changed, [lr_scheduler.LinearLR(changed, 0.2), inner], milestones=[0]
    )
    assert next_rates(joined, 6) == pytest.approx([0.5, 1.0, 1.0, 0.1, 0.1, 0.01])


@pytest.mark.parametrize(
    "make",
    [
        lambda o: lr_scheduler.StepLR(o, 2),
        lambda o: lr_scheduler.MultiStepLR(o, [1]),
        lr_scheduler.ConstantLR,
        lr_scheduler.LinearLR,
        lambda o: lr_scheduler.ExponentialLR(o, 0.5),
        lr_scheduler.PolynomialLR,
        lambda o: lr_scheduler.CosineAnnealingLR(o, 9),
    ],
)
def test_what_multiplies_the_rates_takes_a_group_that_came_later(
    make: Callable[[optim.Optimizer], lr_scheduler.LRScheduler],
) -> None:
    changed = optimizer()
    scheduler = make(changed)
    changed.param_groups[0]["lr"] = 0.125
    changed.add_param_group({"params": [fastdist.zeros(1)], "lr": 0.125})
    scheduler.step()
    first, second = scheduler.get_last_lr()
    assert first == second


def test_a_plateau_takes_a_group_that_came_later() -> None:
    changed = optimizer()
    plateau = lr_scheduler.ReduceLROnPlateau(changed, patience=0, factor=0.5, min_lr=0.1)
    plateau.step(1.0)
    changed.add_param_group({"params": [fastdist.zeros(1)], "lr": 0.125})
    plateau.step(1.0)
    assert plateau.get_last_lr() == [0.5, 0.1] and plateau.min_lrs == [0.1, 0.1]


def test_a_plateau_with_a_least_rate_for_each_group_says_that_one_is_missing() -> None:
    changed = optimizer()
    plateau = lr_scheduler.ReduceLROnPlateau(changed, patience=0, min_lr=[0.1])
    changed.add_param_group({"params": [fastdist.zeros(1)]})
    plateau.step(1.0)
    with pytest.raises(RuntimeError, match="Please modify the `min_lrs` field to match"):
        plateau.step(1.0)
    with pytest.raises(ValueError, match="expected 2 min_lrs, got 1"):
        lr_scheduler.ReduceLROnPlateau(changed, min_lr=[0.1])


def test_a_plateau_is_a_scheduler_that_sequential_refuses() -> None:
    changed = optimizer()
    plateau = lr_scheduler.ReduceLROnPlateau(changed)
    assert isinstance(plateau, lr_scheduler.LRScheduler)
    with pytest.raises(ValueError, match="does not support `ReduceLROnPlateau` scheduler"):
        lr_scheduler.SequentialLR(changed, [plateau], [])
    with pytest.raises(ValueError, match="expects at least one scheduler"):
        lr_scheduler.SequentialLR(changed, [], [])
