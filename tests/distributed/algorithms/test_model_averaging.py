"""Local SGD: averagers, the hook that stops reducing gradients, and the averaging optimizer."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist import nn, optim
from fastdist.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as hooks
from fastdist.distributed.algorithms.model_averaging import averagers, utils
from fastdist.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager,
)
from fastdist.distributed.optim import PostLocalSGDOptimizer
from tests.distributed.data_parallel.models import DDP
from tests.distributed.process_group.thread_members import run_members


def parameter(*values: float, dtype: Any = fd.float32, has_grad: bool = True) -> Any:
    made = nn.Parameter(fd.tensor(values, dtype=dtype))
    if has_grad:
        made.grad = fd.zeros_like(made)
    return made


def test_parameters_with_gradients_are_brought_to_their_mean() -> None:
    def member(rank: int) -> Any:
        # float64 keeps a difference that float32 would round away.
        exact = parameter(1.0 + rank * 2**-40, dtype=fd.float64)
        one, frozen = parameter(rank, 3.0), parameter(rank, has_grad=False)
        names = id(one)
        utils.average_parameters_or_parameter_groups([one, frozen, exact], None)
        utils.average_parameters_or_parameter_groups([], None)
        in_groups = parameter(10.0 * rank)
        utils.average_parameters_or_parameter_groups([{"params": [in_groups, frozen]}], None)
        with pytest.raises(NotImplementedError, match=r"Parameter input of type <class 'str'>"):
            utils.get_params_to_average(["weight"])
        assert id(one) == names and one.requires_grad and one.grad.tolist() == [0, 0]
        return one.tolist(), frozen.tolist(), exact.item(), in_groups.tolist()

    for rank, found in enumerate(run_members(2, member)):
        assert found == ([0.5, 3.0], [rank], 1.0 + 2**-41, [5.0])


def test_members_outside_of_a_group_keep_their_parameters() -> None:
    def member(rank: int) -> Any:
        group = dist.new_group([0, 2])
        one = parameter(rank)
        utils.average_parameters([one], group)
        return one.tolist()

    # Rank 1 keeps its own 1.0, which is also the mean of the group's 0.0 and 2.0.
    assert run_members(3, member) == [[1.0], [1.0], [1.0]]


@pytest.mark.parametrize(
    ("period", "warmup", "averaged"),
    [(1, 0, [0, 1, 2, 3, 4, 5]), (2, 0, [0, 2, 4]), (3, 1, [1, 4]), (4, 6, [])],
)
def test_a_mean_comes_after_each_period_behind_the_first_steps(
    period: int, warmup: int, averaged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(
        utils, "average_parameters_or_parameter_groups", lambda *args: given.append(args)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        averager = averagers.PeriodicModelAverager(period, warmup, process_group="group")
    assert [str(one.message)[:21] for one in caught] == ["When period is 1, a m"] * (period == 1)
    found = []
    for step in range(6):
        averager.average_parameters([step])
        found += [params for params, group in given if group == "group"]
        given.clear()
    assert found == [[step] for step in averaged] and averager.step == 6


def test_what_no_averager_can_do_is_refused() -> None:
    for arguments, words in (((0,), "``period`` must be a p"), ((2, -1), "``warmup_steps``")):
        with pytest.raises(ValueError, match=words):
            averagers.PeriodicModelAverager(*arguments, process_group="group")
    four = SimpleNamespace(size=lambda: 4)
    for sizes, words in (
        ({}, "must not be empty"),
        ({0: 4}, "minimum period"),
        ({2: 2, 4: 3}, "The last value in arg .* 3 must be equal to the size .* 4"),
    ):
        with pytest.raises(ValueError, match=words):
            HierarchicalModelAverager(sizes, process_group=four)
    with pytest.raises(ValueError, match="``warmup_steps`` must be a non-negative"):
        HierarchicalModelAverager({4: 4}, -1, four)
    with pytest.raises(TypeError, match="abstract"):
        averagers.ModelAverager()  # type: ignore[abstract]
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        averagers.PeriodicModelAverager(2)


def test_neighbours_average_often_and_all_seldom() -> None:
    def member(rank: int) -> Any:
        averager = HierarchicalModelAverager({2: 2, 4: 4}, warmup_steps=1)
        one, found = parameter(0.0), []
        for step in range(6):
            with fd.no_grad():
                one.fill_(float(10 * step + rank))
            averager.average_parameters([one])
            found.append(one.item() - 10 * step)
        return found

    for rank, found in enumerate(run_members(4, member)):
        pair = 0.5 if rank < 2 else 2.5
        assert found == [rank, rank, pair, rank, 1.5, rank]


class Bucket:
    """A stand-in for a bucket of gradients."""

    def __init__(self, value: float, is_last: bool) -> None:
        self._buffer, self._is_last = fd.tensor([value]), is_last

    def buffer(self) -> Any:
        return self._buffer

    def is_last(self) -> bool:
        return self._is_last


def test_gradients_are_reduced_by_all_and_then_by_the_subgroup_or_nobody() -> None:
    def member(rank: int) -> Any:
        pairs, _ = dist.new_subgroups(2)
        found = []
        for reduces in (True, False):
            state = hooks.PostLocalSGDState(None, pairs, 2, reduces)
            for last in (False, True, True, True):
                bucket: Any = Bucket(float(rank), last)
                found.append(hooks.post_localSGD_hook(state, bucket).wait().item())
            assert state.iter == 2
        return found

    for rank, found in enumerate(run_members(4, member)):
        pair = 0.5 if rank < 2 else 2.5
        assert found == [1.5, 1.5, 1.5, pair, 1.5, 1.5, 1.5, rank]


def test_the_members_of_a_machine_are_the_subgroup_if_none_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")

    def member(rank: int) -> Any:
        made = dist.new_subgroups(2)
        monkeypatch.setattr(hooks, "new_subgroups", lambda: made)
        state = hooks.PostLocalSGDState(None, None, 0)
        bucket: Any = Bucket(float(rank), True)
        value = hooks.post_localSGD_hook(state, bucket).wait().item()
        return value, state.subgroup.size(), state.iter

    assert run_members(2, member) == [(0.5, 2, 0)] * 2


def trained(rank: int, steps: int, resume_at: int) -> list[float]:
    """Train one number, averaged every second step; reload the optimizer at step `resume_at`."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    wrapped = DDP(model)
    wrapped.register_comm_hook(
        hooks.PostLocalSGDState(None, None, 0, post_local_gradient_allreduce=False),
        hooks.post_localSGD_hook,
    )

    def make() -> PostLocalSGDOptimizer:
        averager = averagers.PeriodicModelAverager(period=2)
        return PostLocalSGDOptimizer(optim.SGD(wrapped.parameters(), lr=0.5), averager)

    optimizer, found = make(), []
    for step in range(steps):
        if step == resume_at:
            saved = optimizer.state_dict()
            assert saved["step"] == step
            optimizer = make()
            optimizer.load_state_dict(saved)
        optimizer.zero_grad()
        assert model.weight.grad is None
        wrapped(fd.tensor([[float(rank + 1)]])).sum().backward()
        optimizer.step()
        found.append(model.weight.item())
    return found


def test_members_train_alone_and_meet_in_every_second_step() -> None:
    for resume_at in (-1, 3):
        found = run_members(2, trained, 5, resume_at)
        # The members take local steps of 0.5 and 1, so their mean falls by 0.75 per step.
        assert found[0] == [0.25, -0.25, -1.25, -1.75, -2.75]
        assert found[1] == [0.25, -0.75, -1.25, -2.25, -2.75]


def test_the_optimizer_is_the_one_inside_with_an_averager() -> None:
    averager = SimpleNamespace(step=7, average_parameters=None)
    given: list[Any] = []
    averager.average_parameters = lambda params: given.append(list(params))
    one, other = parameter(1.0), parameter(2.0)
    inner = optim.SGD([one], lr=0.1, momentum=0.9)
    outer = PostLocalSGDOptimizer(inner, averager)  # type: ignore[arg-type]
    assert isinstance(outer, optim.Optimizer) and repr(outer) == repr(inner)
    outer.add_param_group({"params": [other], "lr": 0.2})
    assert outer.param_groups is inner.param_groups and len(outer.param_groups) == 2
    schedule = optim.lr_scheduler.StepLR(outer, 1, gamma=0.5)
    assert outer.step() is None and given == [list(inner.param_groups)]
    assert outer.state is inner.state and one in outer.state
    assert outer.step(lambda: fd.tensor(3.0)).item() == 3.0
    schedule.step()
    assert [group["lr"] for group in inner.param_groups] == [0.05, 0.1]
    outer.zero_grad(set_to_none=False)
    assert one.grad.tolist() == [0.0]
    with pytest.warns(UserWarning, match="does not contain a step counter"):
        outer.load_state_dict(inner.state_dict())
    assert averager.step == 0 and outer.param_groups is inner.param_groups
