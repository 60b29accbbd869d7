"""A DistributedOptimizer saves, loads, groups and schedules like a local optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor, optim
from fastdist.distributed import optim as distributed_optim
from fastdist.distributed import rpc
from fastdist.distributed.optim import DistributedLRScheduler, DistributedOptimizer
from fastdist.optim import lr_scheduler
from tests.distributed.autograd.on_worker import on_worker
from tests.distributed.members import members
from tests.distributed.remote_parameters import parameter, times, value_of
from tests.distributed.workers import Group

Values = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 3, rpc_timeout=30, init_timeout=30) as group:
        yield group


# ---- what workers run for others ----------------------------------------------------------------


def put_gradient(rref: Any) -> None:
    rref.local_value().sum().backward()


def has_gradient(rref: Any) -> bool:
    return rref.local_value().grad is not None


def set_rate(rref: Any, rate: float) -> None:
    rref.local_value().optimizer.param_groups[0]["lr"] = rate


def first_slow_then_steps(optimizer: optim.Optimizer) -> lr_scheduler.LRScheduler:
    parts = [
        lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2),
        lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1),
    ]
    return lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])


# ---- the same in one process and over several ----------------------------------------------------

X = parameter(9).detach()


class Together:
    """Parameters with seeds 1 to n, all local or spread over `workers`, and a backward pass."""

    def __init__(self, workers: tuple[str, ...] = (), n: int = 3) -> None:
        self.workers = workers
        seeds = range(1, n + 1)
        self.parameters: list[Any] = [parameter(seed) for seed in seeds]
        if workers:
            self.parameters = [
                rpc.remote(workers[seed % len(workers)], parameter, (seed,)) for seed in seeds
            ]

    def step(self, optimizer: Any) -> None:
        if self.workers:
            with da.context() as context_id:
                y = X
                for rref in self.parameters:
                    y = rpc.rpc_sync(rref.owner(), times, (rref, y)).sin()
                da.backward(context_id, [y.sum()])
                optimizer.step(context_id)
            return
        optimizer.zero_grad()
        y = X
        for each in self.parameters:
            y = (each * y).sin()
        y.sum().backward()
        optimizer.step()

    def values(self) -> list[Values]:
        if self.workers:
            return [rpc.rpc_sync(rref.owner(), value_of, (rref,)) for rref in self.parameters]
        return [each.detach().numpy() for each in self.parameters]


def grouped(parameters: list[Any]) -> list[dict[str, Any]]:
    return [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.01}]


def plain(value: Any) -> Any:
    """Return a state dict in which lists replace tensors."""
    if isinstance(value, Tensor):
        return np.round(value.numpy(), 9).tolist()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def same(ours: list[Values], theirs: list[Values]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


# ---- tests --------------------------------------------------------------------------------------


@on_worker(0)
def test_the_state_is_that_of_one_optimizer() -> None:
    spread, here = Together(("w1", "w2", "w0")), Together()
    ours = DistributedOptimizer(optim.Adam, grouped(spread.parameters), lr=0.1)
    theirs = optim.Adam(grouped(here.parameters), lr=0.1)
    for _ in range(2):
        spread.step(ours)
        here.step(theirs)
    assert plain(ours.state_dict()) == plain(theirs.state_dict())


@pytest.mark.parametrize("workers", [("w2",), ("w0", "w1", "w2"), ()])
@on_worker(0)
def test_training_goes_on_over_other_workers_from_a_saved_state(workers: tuple[str, ...]) -> None:
    first, whole = Together(("w1", "w2")), Together()
    optimizer = DistributedOptimizer(optim.Adam, first.parameters, lr=0.1)
    uncut = optim.Adam(whole.parameters, lr=0.1)
    for _ in range(2):
        first.step(optimizer)
        whole.step(uncut)
    second = Together(workers)
    make: Any = DistributedOptimizer if workers else (lambda kind, *args, **kw: kind(*args, **kw))
    resumed = make(optim.Adam, second.parameters, lr=0.5)
    resumed.load_state_dict(optimizer.state_dict())
    for ours, theirs in zip(second.parameters, first.values(), strict=True):
        if workers:
            rpc.rpc_sync(ours.owner(), overwrite, (ours, theirs))
        else:
            overwrite_here(ours, theirs)
    second.step(resumed)
    whole.step(uncut)
    same(second.values(), whole.values())


def overwrite(rref: Any, values: Values) -> None:
    overwrite_here(rref.local_value(), values)


def overwrite_here(tensor: Tensor, values: Values) -> None:
    with fastdist.no_grad():
        tensor.copy_(fastdist.tensor(values))


@on_worker(0)
def test_a_state_of_one_optimizer_can_be_loaded() -> None:
    spread, here = Together(("w1", "w2")), Together()
    theirs = optim.SGD(here.parameters, lr=0.1, momentum=0.9)
    here.step(theirs)
    ours = DistributedOptimizer(optim.SGD, spread.parameters, lr=0.7)
    ours.load_state_dict(theirs.state_dict())
    assert plain(ours.state_dict()) == plain(theirs.state_dict())


@on_worker(0)
def test_a_state_of_other_groups_is_refused_and_nothing_is_loaded() -> None:
    ours = DistributedOptimizer(optim.SGD, Together(("w1", "w2")).parameters, lr=0.7)
    before = ours.state_dict()
    for n, cut, text in (
        (2, lambda p: p, r"doesn't match the size of optimizer's group: group 0 has 2 par"),
        (3, grouped, r"a different number of parameter groups: 2, not 1"),
    ):
        other = optim.SGD(cut(Together(n=n).parameters), lr=0.1)
        with pytest.raises(ValueError, match=text):
            ours.load_state_dict(other.state_dict())
    assert ours.state_dict() == before


@on_worker(0)
def test_owners_whose_options_differ_are_told_of() -> None:
    ours = DistributedOptimizer(optim.SGD, Together(("w1", "w2")).parameters, lr=0.5)
    there = {rref.owner_name(): rref for rref in ours.remote_optimizers}["w1"]
    rpc.rpc_sync("w1", set_rate, (there, 0.25))
    with pytest.raises(ValueError, match=r"group 0 has lr=0.5 on 'w2' and 0.25 on 'w1'"):
        ours.state_dict()


@on_worker(0)
def test_a_group_can_be_added_for_owners_old_and_new() -> None:
    spread, here = Together(("w1", "w2"), n=2), Together(n=2)
    ours = DistributedOptimizer(optim.SGD, spread.parameters[:1], lr=0.1, momentum=0.9)
    theirs = optim.SGD(here.parameters[:1], lr=0.1, momentum=0.9)
    assert [rref.owner_name() for rref in ours.remote_optimizers] == ["w2"]
    ours.add_param_group({"params": spread.parameters[1:], "lr": 0.02})
    theirs.add_param_group({"params": here.parameters[1:], "lr": 0.02})
    for _ in range(2):
        spread.step(ours)
        here.step(theirs)
    same(spread.values(), here.values())
    assert plain(ours.state_dict()) == plain(theirs.state_dict())


@on_worker(0)
def test_what_an_owner_refuses_as_a_group_is_raised() -> None:
    spread = Together(("w1", "w2"))
    ours = DistributedOptimizer(optim.SGD, spread.parameters, lr=0.1)
    with pytest.raises(ValueError, match="appear in more than one parameter group"):
        ours.add_param_group({"params": spread.parameters[:1]})
    with pytest.raises(TypeError, match=r"^param_group must be a dict, but got <class 'list'>"):
        ours.add_param_group(spread.parameters)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected RRefs of parameters, got Tensor"):
        ours.add_param_group({"params": [parameter(1)]})
    assert len(ours.state_dict()["param_groups"]) == 1


@on_worker(0)
def test_zero_grad_forgets_gradients_of_local_passes() -> None:
    rref = rpc.remote("w1", parameter, (1,))
    optimizer = DistributedOptimizer(optim.SGD, [rref], lr=0.1)
    rpc.rpc_sync("w1", put_gradient, (rref,))
    assert rpc.rpc_sync("w1", has_gradient, (rref,))
    optimizer.zero_grad()
    assert not rpc.rpc_sync("w1", has_gradient, (rref,))


# ---- schedulers ---------------------------------------------------------------------------------

SCHEDULERS: list[tuple[Any, dict[str, Any]]] = [
    (lr_scheduler.StepLR, {"step_size": 2, "gamma": 0.5}),
    (lr_scheduler.ExponentialLR, {"gamma": 0.7}),
    (lr_scheduler.CosineAnnealingLR, {"T_max": 3}),
    (lr_scheduler.OneCycleLR, {"max_lr": [0.3, 0.2], "total_steps": 6}),
    (first_slow_then_steps, {}),
]


@pytest.mark.parametrize(("kind", "settings"), SCHEDULERS)
@on_worker(0)
def test_rates_change_on_the_owners_as_in_one_process(kind: Any, settings: dict[str, Any]) -> None:
    spread, here = Together(("w1", "w2")), Together()
    ours = DistributedOptimizer(optim.SGD, grouped(spread.parameters), lr=0.1, momentum=0.5)
    theirs = optim.SGD(grouped(here.parameters), lr=0.1, momentum=0.5)
    schedule = DistributedLRScheduler(kind, ours, **settings)
    schedule_here = kind(theirs, **settings)
    for _ in range(4):
        spread.step(ours)
        here.step(theirs)
        schedule.step()
        schedule_here.step()
        assert schedule.get_last_lr() == schedule_here.get_last_lr()
    same(spread.values(), here.values())


@on_worker(0)
def test_a_measure_reaches_a_scheduler_that_takes_one() -> None:
    optimizer = DistributedOptimizer(optim.SGD, Together(("w1", "w2")).parameters, lr=0.1)
    plateau = lr_scheduler.ReduceLROnPlateau
    schedule = DistributedLRScheduler(plateau, optimizer, patience=0, factor=0.5)
    for measure in (1.0, 2.0, 3.0):
        schedule.step(measure)
    assert schedule.get_last_lr() == [0.025]


@on_worker(0)
def test_a_schedule_goes_on_from_its_state_over_other_workers() -> None:
    spread = Together(("w1", "w2"))
    first = DistributedOptimizer(optim.SGD, spread.parameters, lr=0.1)
    schedule = DistributedLRScheduler(lr_scheduler.StepLR, first, step_size=2)
    for _ in range(3):
        spread.step(first)
        schedule.step()
    elsewhere = Together(("w0",))
    second = DistributedOptimizer(optim.SGD, elsewhere.parameters, lr=0.9)
    resumed = DistributedLRScheduler(lr_scheduler.StepLR, second, step_size=2)
    second.load_state_dict(first.state_dict())
    resumed.load_state_dict(schedule.state_dict())
    elsewhere.step(second)
    schedule.step()
    resumed.step()
    assert resumed.get_last_lr() == schedule.get_last_lr() == [pytest.approx(0.001)]


@on_worker(0)
def test_a_scheduler_is_made_anew_after_a_group_was_added() -> None:
    spread = Together(("w1", "w2"))
    optimizer = DistributedOptimizer(optim.SGD, spread.parameters[:1], lr=0.1)
    schedule = DistributedLRScheduler(lr_scheduler.StepLR, optimizer, step_size=2)
    optimizer.add_param_group({"params": spread.parameters[1:]})
    with pytest.raises(RuntimeError, match="make the scheduler after add_param_group"):
        schedule.step()


@on_worker(0)
def test_what_is_no_scheduler_or_optimizer_is_refused() -> None:
    optimizer = DistributedOptimizer(optim.SGD, Together(("w1",)).parameters, lr=0.1)
    with pytest.raises(TypeError, match="SGD is not a DistributedOptimizer"):
        DistributedLRScheduler(
            lr_scheduler.StepLR,
            optim.SGD([parameter(1)], lr=0.1),  # type: ignore[arg-type]
            step_size=1,
        )
    with pytest.raises(TypeError, match=r"expected a class of optim.lr_scheduler, got 'StepLR'"):
        DistributedLRScheduler("StepLR", optimizer)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="step_size"):
        DistributedLRScheduler(lr_scheduler.StepLR, optimizer)


def test_what_is_not_there_says_why() -> None:
    with pytest.raises(NotImplementedError, match=r"step_with\(gradients\)"):
        distributed_optim.as_functional_optim(None)
    with pytest.raises(NotImplementedError, match=r"_NamedOptimizer.*named_parameters\(\)"):
        distributed_optim._NamedOptimizer({})


@pytest.mark.one_in(2)
def test_a_scheduler_of_one_process_names_that_of_all_owners() -> None:
    optimizer = DistributedOptimizer.__new__(DistributedOptimizer)
    with pytest.raises(TypeError, match=r"not an Optimizer; .*DistributedLRScheduler"):
        lr_scheduler.StepLR(optimizer, 1)  # type: ignore[arg-type]
