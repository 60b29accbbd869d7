"""ZeroRedundancyOptimizer takes the steps of an ordinary optimizer with a part of its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist import nn, optim
from fastdist.distributed.optim import ZeroRedundancyOptimizer
from tests.distributed.data_parallel.models import Mlp, batch, mean_square, seeded
from tests.distributed.process_group.thread_members import run_members

CLASSES: list[tuple[type[optim.Optimizer], dict[str, Any]]] = [
    (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    (optim.AdamW, {"lr": 0.01, "amsgrad": True}),
]


def train(model: nn.Module, optimizer: Any, x: fd.Tensor, steps: int, scheduler: Any = None) -> Any:
    """Train for some steps, and return the weights."""
    for _ in range(steps):
        optimizer.zero_grad()
        mean_square(model(x)).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return [one.tolist() for one in model.parameters()]


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    """Return two parameter groups with different learning rates."""
    first, *rest = model.parameters()
    return [{"params": [first], "lr": 0.05}, {"params": rest}]


@pytest.mark.parametrize(("kind", "options"), CLASSES)
def test_steps_are_those_of_an_ordinary_optimizer(
    kind: type[optim.Optimizer], options: dict[str, Any]
) -> None:
    def member(rank: int) -> tuple[Any, int]:
        model = nn.parallel.DistributedDataParallel(seeded(Mlp))
        optimizer = ZeroRedundancyOptimizer(groups_of(model), kind, **options)
        scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        weights = train(model, optimizer, batch(rank), 4, scheduler)
        assert optimizer.optim is not None
        held = sum(
            one.numel()
            for state in optimizer.optim.state.values()
            for one in state.values()
            if isinstance(one, fd.Tensor) and one.numel() > 1
        )
        return weights, held

    model = seeded(Mlp)
    optimizer: Any = kind(groups_of(model), **options)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    expected = train(model, optimizer, fd.cat([batch(0), batch(1)]), 4, scheduler)
    (one, held), (two, rest) = run_members(2, member)
    assert one == two
    for ours, wanted in zip(one, expected, strict=True):
        np.testing.assert_allclose(ours, wanted, 1e-9)
    whole = sum(
        value.numel()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, fd.Tensor) and value.numel() > 1
    )
    assert held + rest == whole and max(held, rest) < 0.65 * whole


def test_states_load_at_any_world_size() -> None:
    def begin(rank: int, steps: int, state: Any, weights: Any) -> Any:
        model = nn.parallel.DistributedDataParallel(seeded(Mlp))
        if weights is not None:
            with fd.no_grad():
                for one, value in zip(model.parameters(), weights):
                    one.copy_(fd.tensor(value, dtype=fd.float64))
        optimizer = ZeroRedundancyOptimizer(model.parameters(), optim.Adam, lr=0.01)
        if state is not None:
            optimizer.load_state_dict(state)
        # All members train with the same batch, so their number has no effect on the results.
        found = train(model, optimizer, batch(0), steps)
        with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
            optimizer.state_dict()
        optimizer.consolidate_state_dict(to=dist.get_world_size() - 1)
        is_last = rank == dist.get_world_size() - 1
        return found, optimizer.state_dict() if is_last else None

    weights, state = run_members(2, begin, 3, None, None)[1]
    assert [*state["state"]] == list(range(6))
    model = seeded(Mlp)
    plain = optim.Adam(model.parameters(), lr=0.01)
    expected = train(model, plain, batch(0), 6)
    for size in (1, 3, 8):
        again, _ = run_members(size, begin, 3, state, weights)[0]
        for ours, wanted in zip(again, expected, strict=True):
            np.testing.assert_allclose(ours, wanted, 1e-9)
    twin = seeded(Mlp)
    other = optim.Adam(twin.parameters(), lr=0.5)
    other.load_state_dict(state)
    assert other.param_groups[0]["lr"] == 0.01


def test_groups_may_be_added_and_closures_return_the_loss() -> None:
    def member(rank: int) -> list[Any]:
        model = seeded(Mlp)
        parameters = list(model.parameters())
        optimizer = ZeroRedundancyOptimizer(parameters[:1], optim.SGD, lr=0.1)
        optimizer.add_param_group({"params": parameters[1:], "lr": 0.2})

        def closure() -> fd.Tensor:
            optimizer.zero_grad()
            loss: fd.Tensor = mean_square(model(batch(0)))
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        return [loss.item(), [one.tolist() for one in parameters]]

    one, two, three = run_members(3, member)
    assert one == two == three
    model = seeded(Mlp)
    first, *rest = model.parameters()
    plain = optim.SGD([{"params": [first]}, {"params": rest, "lr": 0.2}], lr=0.1)
    for ours, wanted in zip(one[1], train(model, plain, batch(0), 1), strict=True):
        np.testing.assert_allclose(ours, wanted, 1e-12)


def test_sparse_parameters_are_refused() -> None:
    def member(rank: int) -> None:
        for given in ([fd.ones(2).to_sparse()], [fd.ones(1), fd.ones(2).to_sparse()]):
            with pytest.raises(ValueError, match="parameters are dense tensors, and one is sparse"):
                ZeroRedundancyOptimizer(given, optimizer_class=optim.SGD, lr=0.1)

    run_members(1, member)


def test_wrong_arguments_are_refused() -> None:
    def member(rank: int) -> None:
        parameters: Callable[[], Any] = nn.Linear(2, 2 + rank).parameters
        with pytest.raises(RuntimeError, match=r"params\[0\]\) in this process with sizes"):
            ZeroRedundancyOptimizer(parameters(), optim.SGD, lr=0.1)
        with pytest.raises(NotImplementedError, match="overlap_with_ddp is not supported"):
            ZeroRedundancyOptimizer(parameters(), optim.SGD, overlap_with_ddp=True, lr=0.1)
        optimizer = ZeroRedundancyOptimizer(nn.Linear(2, 2).parameters(), optim.SGD, lr=0.1)
        with pytest.raises(ValueError, match="different number of parameters"):
            optimizer.load_state_dict({"state": {}, "param_groups": []})

    run_members(2, member)


class Noted(optim.SGD):
    """Records the arguments of its steps, and adds an option to the parameter groups."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, lr=lr)
        self.steps: list[Any] = []

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        self.param_groups[-1].setdefault("added", 5)

    def step(self, closure: Any = None, **more: Any) -> Any:
        self.steps.append((closure is not None, more))
        result = super().step(closure)
        for group in self.param_groups:
            group["added"] += 1
        return result


def test_each_rank_steps_the_largest_parameters_that_are_left() -> None:
    def member(rank: int) -> list[Any]:
        sizes = [1, 4, 3, 2, 6]
        parameters = [nn.Parameter(fd.zeros(size)) for size in sizes]
        optimizer = ZeroRedundancyOptimizer(parameters, Noted, lr=0.5)
        assert [optimizer._owners[one] for one in parameters] == [1, 1, 1, 0, 0]
        assert optimizer._loads == [8, 8]
        optimizer.add_param_group({"params": [nn.Parameter(fd.zeros(1))], "lr": 0.25})
        assert optimizer._loads == [9, 8]
        own: Any = optimizer.optim
        assert optimizer.param_groups[0]["added"] == 5
        assert [group["lr"] for group in own.param_groups] == [0.5, 0.25]
        optimizer.param_groups[0]["lr"] = 0.125
        for one in parameters:
            one.grad = fd.ones_like(one)
        assert optimizer.step(grad_scaler=3) is None
        assert optimizer.step(lambda: 7.0) == 7.0
        assert own.steps == [(False, {"grad_scaler": 3}), (True, {})]
        assert own.param_groups[0]["lr"] == 0.125 and optimizer.param_groups[0]["added"] == 7
        return [[len(group["params"]) for group in own.param_groups],
            [one.tolist() for one in parameters]]  # fmt: skip

    weights = [[-0.25] * size for size in (1, 4, 3, 2, 6)]
    assert run_members(2, member) == [[[2, 1], weights], [[3, 0], weights]]


def test_a_rank_without_parameters_takes_part_and_begins_when_it_gets_some() -> None:
    def member(rank: int) -> Any:
        first, late = (nn.Parameter(fd.full((2,), rank + 1.0)) for _ in range(2))
        optimizer = ZeroRedundancyOptimizer([first], Noted)
        assert (optimizer.optim is None) == (rank == 1)
        first.grad = fd.ones(2)
        assert optimizer.step(lambda: 3.0) == 3.0
        assert optimizer.step() is None
        found = [[round(one, 6) for one in first.tolist()]]
        optimizer.consolidate_state_dict(to=1)
        if rank == 1:
            optimizer.load_state_dict(optimizer.state_dict())
            with pytest.raises(RuntimeError, match=r"consolidate_state_dict\(to=1\)"):
                optimizer.state_dict()
        optimizer.add_param_group({"params": [late], "lr": 1.0})
        late.grad = fd.ones(2)
        optimizer.step()
        assert optimizer.optim is not None
        return [*found, late.tolist(), optimizer.param_groups[1]["added"]]

    # Both ranks have the values of rank 1, which owns the parameters that were added last.
    assert run_members(2, member) == [[[0.8, 0.8], [1.0, 1.0], 6]] * 2


def test_states_have_the_numbers_of_all_parameters() -> None:
    def member(rank: int) -> Any:
        parameters = [nn.Parameter(fd.zeros(size)) for size in (1, 3, 2)]
        groups = [{"params": parameters[:1], "lr": 0.5}, {"params": parameters[1:]}]
        optimizer = ZeroRedundancyOptimizer(groups, optim.SGD, lr=0.1, momentum=0.5)
        for number, one in enumerate(parameters):
            one.grad = fd.full_like(one, number + 1.0)
        optimizer.step()
        optimizer.consolidate_state_dict(to=1)
        optimizer.consolidate_state_dict()
        if rank:
            # The second consolidation went to rank 0, so the copy of this rank is outdated.
            with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
                optimizer.state_dict()
            return None
        state = optimizer.state_dict()
        assert state is not optimizer.state_dict()
        return [
            {number: one["momentum_buffer"].tolist() for number, one in state["state"].items()},
            [(group["params"], group["lr"]) for group in state["param_groups"]],
        ]

    assert run_members(2, member)[0] == [
        {0: [1.0], 1: [2.0] * 3, 2: [3.0] * 2},
        [([0], 0.5), ([1, 2], 0.1)],
    ]
