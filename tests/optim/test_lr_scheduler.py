"""Learning rates by epoch; the expected numbers are results of PyTorch 2.13."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import fastdist
from fastdist import optim
from fastdist.optim import lr_scheduler

# These tests only read learning rates, so optimisers do not step, and schedulers would warn.
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler.step:UserWarning")


def optimizer(lr: float = 1.0) -> optim.SGD:
    return optim.SGD([fastdist.zeros(1, requires_grad=True)], lr=lr)


def rates(make: Callable[[optim.Optimizer], lr_scheduler.LRScheduler], epochs: int) -> list[float]:
    changed = optimizer()
    scheduler = make(changed)
    found = []
    for _ in range(epochs):
        assert scheduler.get_last_lr() == [changed.param_groups[0]["lr"]]
        found += scheduler.get_last_lr()
        scheduler.step()
    return found


def sequential(changed: optim.Optimizer) -> lr_scheduler.SequentialLR:
    first = lr_scheduler.LinearLR(changed, 0.1, 1.0, 3)
    return lr_scheduler.SequentialLR(
        changed, [first, lr_scheduler.ExponentialLR(changed, 0.5)], milestones=[4]
    )


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda o: lr_scheduler.StepLR(o, 3, 0.5), [1, 1, 1, 0.5, 0.5, 0.5, 0.25]),
        (lambda o: lr_scheduler.MultiStepLR(o, [2, 2, 5]), [1, 1, 0.01, 0.01, 0.01, 0.001]),
        (lambda o: lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1)), [1, 0.5, 1 / 3, 0.25]),
        (lambda o: lr_scheduler.MultiplicativeLR(o, lambda e: 0.9), [1, 0.9, 0.81, 0.729]),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.9), [1, 0.9, 0.81, 0.729]),
        (lambda o: lr_scheduler.ConstantLR(o, 0.5, 2), [0.5, 0.5, 1, 1]),
        (lambda o: lr_scheduler.LinearLR(o, 0.5, 0.1, 4), [0.5, 0.4, 0.3, 0.2, 0.1, 0.1]),
        (lambda o: lr_scheduler.PolynomialLR(o, 2, 2.0), [1, 0.25, 0, 0]),
        (
            lambda o: lr_scheduler.CosineAnnealingLR(o, 4, 0.01),
            [1, 0.855017856687, 0.505, 0.154982143313, 0.01, 0.154982143313, 0.505],
        ),
        (
            lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
            [1, 0.7525, 0.2575, 1, 0.933682574873, 0.7525, 0.505, 0.2575, 0.076317425127, 1],
        ),
        (sequential, [0.1, 0.4, 0.7, 1, 1, 0.5, 0.25]),
    ],
)
def test_rates_are_pytorchs(
    make: Callable[[optim.Optimizer], lr_scheduler.LRScheduler], expected: list[float]
) -> None:
    assert rates(make, len(expected)) == pytest.approx(expected, abs=1e-12)


def test_what_multiplies_goes_on_from_the_rate_that_the_one_before_left() -> None:
    changed = optimizer()
    first = lr_scheduler.ExponentialLR(changed, 0.5)
    then = lr_scheduler.MultiplicativeLR(changed, lambda epoch: 0.9 if epoch else 3.0)
    joined = lr_scheduler.SequentialLR(changed, [first, then], [2])
    found = [changed.param_groups[0]["lr"]]
    for _ in range(3):
        joined.step()
        found.append(changed.param_groups[0]["lr"])
    # As in PyTorch, the rate is also multiplied by the second scheduler's factor for epoch 0.
    assert found == pytest.approx([1.0, 0.5, 1.5, 1.35])


def test_each_group_has_a_rate_of_its_own() -> None:
    changed = optim.SGD(
        [{"params": fastdist.zeros(1)}, {"params": fastdist.zeros(1), "lr": 0.1}], lr=1.0
    )
    scheduler = lr_scheduler.LambdaLR(changed, [lambda e: 1.0, lambda e: 0.5**e])
    scheduler.step()
    assert scheduler.get_last_lr() == [1.0, 0.05]
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas, but got 1"):
        lr_scheduler.LambdaLR(changed, [lambda e: 1.0])


def test_a_rate_that_the_user_changed_is_gone_on_from() -> None:
    changed = optimizer()
    scheduler = lr_scheduler.ExponentialLR(changed, 0.5)
    changed.param_groups[0]["lr"] = 8.0
    scheduler.step()
    assert scheduler.get_last_lr() == [4.0]


@pytest.mark.parametrize("make", [lambda o: lr_scheduler.StepLR(o, 2), sequential])
def test_a_state_dict_lets_another_scheduler_go_on(
    make: Callable[[optim.Optimizer], lr_scheduler.LRScheduler],
) -> None:
    expected = rates(make, 8)
    first, second = optimizer(), optimizer()
    before, after = make(first), make(second)
    for _ in range(5):
        before.step()
    second.load_state_dict(first.state_dict())
    after.load_state_dict(before.state_dict())
    after.step()
    assert after.get_last_lr() == pytest.approx(expected[6:7])


def test_resuming_needs_the_first_rate() -> None:
    with pytest.raises(KeyError, match="param 'initial_lr' is not specified in param_groups"):
        lr_scheduler.StepLR(optimizer(), 2, last_epoch=3)


def test_a_plateau_lowers_the_rate() -> None:
    changed = optimizer()
    scheduler = lr_scheduler.ReduceLROnPlateau(
        changed, patience=1, cooldown=1, factor=0.5, threshold=0.1
    )
    found = []
    for measure in [3, 2.9, 2.5, 2.4, 2.4, 2.4, 2.4, 2.4, 2.4, 1, 1, 1, 1, 1]:
        scheduler.step(measure)
        found += scheduler.get_last_lr()
    assert found == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125]
    with pytest.raises(ValueError, match="mode up is unknown"):
        lr_scheduler.ReduceLROnPlateau(changed, mode="up")


def test_a_relative_threshold_of_a_negative_measure_is_pytorchs() -> None:
    changed = optimizer()
    plateau = lr_scheduler.ReduceLROnPlateau(changed, patience=0, threshold=0.1)
    for measure in (-1.0, -0.95, -0.9):
        plateau.step(measure)
    assert changed.param_groups[0]["lr"] == 1.0 and plateau.best == -0.9


def test_a_plateau_may_look_for_the_largest_and_stops_at_the_least_rate() -> None:
    changed = optimizer()
    scheduler = lr_scheduler.ReduceLROnPlateau(
        changed, mode="max", patience=0, threshold=0.5, threshold_mode="abs", min_lr=0.05
    )
    for measure in (1.0, 1.4, 2.0, 2.0, 2.0):
        scheduler.step(measure)
    assert scheduler.get_last_lr() == [0.05]


def test_a_scheduler_that_did_not_see_the_first_step_of_its_optimizer_goes_on() -> None:
    changed = optimizer()
    scheduler = lr_scheduler.ExponentialLR(changed, 0.5)
    # A scheduler of PyTorch lacks this attribute if the whole object was loaded from a file.
    del scheduler._step_of_optimizer
    changed.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.5]


def test_a_subclass_with_an_init_of_its_own_steps() -> None:
    class Halving(lr_scheduler.LRScheduler):
        def __init__(self, changed: optim.Optimizer) -> None:
            self.optimizer, self.last_epoch, self._step_count = changed, 0, 1

        def get_lr(self) -> list[lr_scheduler.scheduler.Rate]:
            return [group["lr"] / 2 for group in self.optimizer.param_groups]

    changed = optimizer()
    scheduler = Halving(changed)
    changed.step()
    scheduler.step()
    assert changed.param_groups[0]["lr"] == 0.5
