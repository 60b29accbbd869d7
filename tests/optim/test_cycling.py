"""Learning rates and momenta that rise and fall, and messages about wrong use.

The expected numbers are results of PyTorch 2.13.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import fastdist
from fastdist import optim
from fastdist.optim import lr_scheduler, swa_utils

Make = Callable[[optim.Optimizer], lr_scheduler.LRScheduler]
# (scheduler, rates of nine epochs, momenta of nine epochs); a single momentum holds for all epochs.
ROWS: list[tuple[Make, list[float], list[float]]] = [
    (
        lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.5, 3),
        [
            0.1,
            0.233333333,
            0.366666667,
            0.5,
            0.366666667,
            0.233333333,
            0.1,
            0.233333333,
            0.366666667,
        ],
        [
            0.9,
            0.866666667,
            0.833333333,
            0.8,
            0.833333333,
            0.866666667,
            0.9,
            0.866666667,
            0.833333333,
        ],
    ),
    (
        lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.5, 2, 3, mode="triangular2"),
        [0.1, 0.3, 0.5, 0.366666667, 0.233333333, 0.1, 0.2, 0.3, 0.233333333],
        [0.9, 0.85, 0.8, 0.833333333, 0.866666667, 0.9, 0.875, 0.85, 0.866666667],
    ),
    (
        lambda o: lr_scheduler.CyclicLR(o, 0.1, [0.5], 2, mode="exp_range", gamma=0.9),
        [0.1, 0.28, 0.424, 0.2458, 0.1, 0.218098, 0.3125764, 0.19565938, 0.1],
        [0.9, 0.855, 0.819, 0.86355, 0.9, 0.8704755, 0.8468559, 0.876085155, 0.9],
    ),
    (
        lambda o: lr_scheduler.CyclicLR(
            o, 0.1, 0.5, 2, scale_fn=lambda x: 1 / x, base_momentum=0.5
        ),
        [0.1, 0.3, 0.5, 0.3, 0.1, 0.2, 0.3, 0.2, 0.1],
        [0.9, 0.7, 0.5, 0.7, 0.9, 0.8, 0.7, 0.8, 0.9],
    ),
    (
        lambda o: lr_scheduler.OneCycleLR(o, 0.5, 8),
        [
            0.02,
            0.409637552,
            0.485970889,
            0.405872827,
            0.277992007,
            0.141530499,
            0.0383207969,
            2e-06,
            0.0383207969,
        ],
        [
            0.95,
            0.86882551,
            0.852805833,
            0.86882551,
            0.894401776,
            0.921694187,
            0.94233621,
            0.95,
            0.94233621,
        ],
    ),
    (
        lambda o: lr_scheduler.OneCycleLR(
            o, 0.5, epochs=2, steps_per_epoch=4, anneal_strategy="linear", pct_start=0.5
        ),
        [0.02, 0.18, 0.34, 0.5, 0.3750005, 0.250001, 0.1250015, 2e-06, -0.1249975],
        [0.95, 0.916666667, 0.883333333, 0.85, 0.875, 0.9, 0.925, 0.95, 0.975],
    ),
    (
        lambda o: lr_scheduler.OneCycleLR(o, 0.5, 12, three_phase=True, div_factor=5.0),
        [
            0.1,
            0.229079023,
            0.44970215,
            0.477091205,
            0.275892664,
            0.105811637,
            0.0953792331,
            0.0780615473,
            0.0527116747,
        ],
        [0.95, 0.917730244, 0.862574463, 0.855727199, 0.906026834, 0.948547091, 0.95, 0.95, 0.95],
    ),
    (
        lambda o: lr_scheduler.ChainedScheduler(
            [lr_scheduler.ExponentialLR(o, 0.9), lr_scheduler.ConstantLR(o, 0.5, 3)]
        ),
        [0.5, 0.45, 0.405, 0.729, 0.6561, 0.59049, 0.531441, 0.4782969, 0.43046721],
        [0.9],
    ),
    (
        lambda o: swa_utils.SWALR(o, 0.05, 4),
        [1.0, 0.860875721, 0.525, 0.189124279, 0.05, 0.05, 0.05, 0.05, 0.05],
        [0.9],
    ),
    (
        lambda o: swa_utils.SWALR(o, 0.05, 3, "linear"),
        [1.0, 0.683333333, 0.366666667, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05],
        [0.9],
    ),
    (
        lambda o: swa_utils.SWALR(o, 0.05, 0),
        [0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05],
        [0.9],
    ),
]


def stepping(lr: Any = 1.0, momentum: float = 0.9) -> optim.SGD:
    """Return an SGD optimiser with one parameter that has a gradient."""
    parameter = fastdist.zeros(1, requires_grad=True)
    parameter.grad = fastdist.zeros(1)
    return optim.SGD([parameter], lr=lr, momentum=momentum)


def go(optimizer: optim.Optimizer, scheduler: lr_scheduler.LRScheduler) -> None:
    optimizer.step()
    scheduler.step()


@pytest.mark.parametrize(("make", "rates", "momenta"), ROWS)
def test_rates_and_momenta_are_pytorchs(
    make: Make, rates: list[float], momenta: list[float]
) -> None:
    optimizer = stepping()
    scheduler = make(optimizer)
    found = []
    for _ in rates:
        group = optimizer.param_groups[0]
        found.append((scheduler.get_last_lr()[0], group["lr"], group["momentum"]))
        if len(found) < len(rates):
            go(optimizer, scheduler)
    expected = list(zip(rates, rates, momenta * (len(rates) // len(momenta)), strict=True))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-8)


@pytest.mark.parametrize(("make", "rates", "_"), ROWS)
def test_a_rate_in_a_tensor_is_written_into(make: Make, rates: list[float], _: Any) -> None:
    rate = fastdist.tensor(1.0, dtype=fastdist.float64)
    optimizer = stepping(rate)
    scheduler = make(optimizer)
    go(optimizer, scheduler)
    (last,) = scheduler.get_last_lr()
    assert optimizer.param_groups[0]["lr"] is rate and last is not rate
    assert rate.item() == pytest.approx(rates[1], rel=1e-6) == last.item()


@pytest.mark.parametrize(("make", "rates", "_"), ROWS)
def test_a_state_dict_goes_on(make: Make, rates: list[float], _: Any) -> None:
    optimizer = stepping()
    scheduler = make(optimizer)
    for _ in range(4):
        go(optimizer, scheduler)
    later = stepping()
    goes_on = make(later)
    later.load_state_dict(optimizer.state_dict())
    state = pickle.loads(pickle.dumps(scheduler.state_dict()))
    goes_on.load_state_dict(copy.deepcopy(state))
    go(later, goes_on)
    assert goes_on.get_last_lr() == [pytest.approx(rates[5], rel=1e-8)]


def test_a_cycle_moves_the_first_of_adams_betas() -> None:
    optimizer = optim.Adam([fastdist.zeros(1, requires_grad=True)])
    lr_scheduler.OneCycleLR(optimizer, 0.1, 10)
    assert optimizer.param_groups[0]["betas"] == (0.95, 0.999)


def test_stepping_the_scheduler_first_is_warned_of() -> None:
    optimizer = stepping()
    scheduler = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(
        UserWarning, match=r"^Detected call of `lr_scheduler.step\(\)` before"
    ) as seen:
        scheduler.step()
    assert seen[0].filename == __file__
    go(optimizer, scheduler)


def test_a_step_before_the_scheduler_was_made_does_not_count() -> None:
    optimizer = stepping()
    optimizer.step()
    scheduler = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="Detected call of"):
        scheduler.step()


def test_a_step_that_was_replaced_is_warned_of() -> None:
    optimizer = stepping()
    scheduler = lr_scheduler.StepLR(optimizer, 1)
    optimizer.step = lambda closure=None: None  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match=r"^Seems like `optimizer.step\(\)` has been overridden"):
        scheduler.step()


def test_get_lr_by_hand_is_warned_of() -> None:
    scheduler = lr_scheduler.ExponentialLR(stepping(), 0.5)
    with pytest.warns(UserWarning, match="^To get the last learning rate computed by the") as seen:
        scheduler.get_lr()
    assert seen[0].filename == __file__


def test_the_rates_that_were_set_are_not_those_of_a_later_step() -> None:
    optimizer = stepping(fastdist.tensor(1.0))
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    (before,) = scheduler.get_last_lr()
    go(optimizer, scheduler)
    assert before.item() == 1.0 and scheduler.base_lrs[0].item() == 1.0


def test_a_scheduler_of_pytorchs_idiom_works() -> None:
    class Halving(lr_scheduler._LRScheduler):
        def get_lr(self) -> list[float]:
            assert self._get_lr_called_within_step
            return [base * 0.5**self.last_epoch for base in self.base_lrs]

    optimizer = stepping()
    scheduler = Halving(optimizer)
    go(optimizer, scheduler)
    assert scheduler.get_last_lr() == [0.5]
    assert isinstance(scheduler, lr_scheduler.LRScheduler)


RAISES: list[tuple[Callable[[optim.Optimizer], Any], type[Exception], str]] = [
    (lambda o: lr_scheduler.CyclicLR(o, 0.1, 1, mode="no"), ValueError, "mode is invalid and sc"),
    (
        lambda o: lr_scheduler.CyclicLR(o, [1, 2], 1),
        ValueError,
        "base_lr must have the same length",
    ),
    (lambda o: lr_scheduler.OneCycleLR(o, 1), ValueError, "You must define either total_steps OR"),
    (lambda o: lr_scheduler.OneCycleLR(o, 1, 0), ValueError, "Expected positive integer total_st"),
    (
        lambda o: lr_scheduler.OneCycleLR(o, 1, epochs=-1, steps_per_epoch=1),
        ValueError,
        "Expected positive integer epochs, but got -1",
    ),
    (
        lambda o: lr_scheduler.OneCycleLR(o, 1, 5, pct_start=2.0),
        ValueError,
        "Expected float between 0 and 1 pct_start",
    ),
    (
        lambda o: lr_scheduler.OneCycleLR(o, 1, 5, anneal_strategy="no"),
        ValueError,
        "anneal_strategy must be one of 'cos' or 'linear'",
    ),
    (lambda o: lr_scheduler.ChainedScheduler([]), ValueError, "ChainedScheduler expects at least"),
    (
        lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ReduceLROnPlateau(o)]),
        ValueError,
        "ChainedScheduler does not support `ReduceLROnPlateau`",
    ),
    (
        lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.StepLR(o, 1)], stepping()),
        ValueError,
        "ChainedScheduler expects all schedulers to belong to the same optimizer",
    ),
    (lambda o: swa_utils.SWALR(o, 1, anneal_epochs=-1), ValueError, "anneal_epochs must be equal"),
    (lambda o: swa_utils.SWALR(o, 1, anneal_strategy="no"), ValueError, "anneal_strategy must be"),
    (lambda o: lr_scheduler.StepLR("no", 1), TypeError, "str is not an Optimizer"),  # type: ignore[arg-type]
    (
        lambda o: lr_scheduler.CyclicLR(optim.Adagrad([fastdist.zeros(1)]), 0.1, 1),
        ValueError,
        "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), RAISES)
def test_what_makes_no_sense_is_refused_in_pytorchs_words(
    make: Callable[[optim.Optimizer], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{message}"):
        make(stepping())


def test_one_cycle_ends() -> None:
    optimizer = stepping()
    scheduler = lr_scheduler.OneCycleLR(optimizer, 0.1, 2)
    go(optimizer, scheduler)
    go(optimizer, scheduler)
    with pytest.raises(ValueError, match=r"^Tried to step 3 times. The specified number of total"):
        go(optimizer, scheduler)


def test_momentum_may_stay() -> None:
    optimizer = optim.Adagrad([fastdist.zeros(1)])
    scheduler = lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, 2, cycle_momentum=False)
    go(optimizer, scheduler)
    assert scheduler.get_last_lr() == [pytest.approx(0.3)]
