"""Behaviours 14 to 19 of DistributedDataParallel; the name of each test has its number."""

from __future__ import annotations

import copy
import io
from itertools import chain
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist import nn
from fastdist.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    default_hooks,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from fastdist.distributed.algorithms.join import Join
from tests.distributed.data_parallel.models import (
    DDP,
    Mlp,
    TwoHeads,
    batch,
    close,
    grads,
    grads_of_whole,
    mean_square,
    seeded,
)
from tests.distributed.process_group.thread_members import run_members


@pytest.mark.parametrize("as_views", [False, True])
def test_14_no_sync_adds_up_and_the_next_backward_reduces_it(as_views: bool) -> None:
    def member(rank: int) -> list[Any]:
        model = DDP(nn.Linear(1, 1, bias=False), gradient_as_bucket_view=as_views)
        x = fd.full((1, 1), float(rank + 1))
        found = []
        with model.no_sync():
            model(x).sum().backward()
            found.append(model.module.weight.grad.item())
            with model.no_sync():
                pass
            assert not model.require_backward_grad_sync
        with pytest.raises(ZeroDivisionError), model.no_sync():
            raise ZeroDivisionError
        assert model.require_backward_grad_sync
        model(x * 10).sum().backward()
        found.append(model.module.weight.grad.item())
        return found

    # The means of 1 + 10 and 2 + 20.
    assert run_members(2, member) == [[1.0, 16.5], [2.0, 16.5]]


def test_15_gradients_may_be_views_of_the_buckets() -> None:
    def member(rank: int) -> None:
        model = DDP(seeded(Mlp), gradient_as_bucket_view=True)
        optimizer = fd.optim.SGD(model.parameters(), 0.1)
        for step in range(3):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            mean_square(model(batch(rank))).backward()
            for bucket in model.reducer.buckets:
                for index, view in zip(bucket.indices, bucket.views):
                    assert model.reducer.parameters[index].grad.data_ptr() == view.data_ptr()
            optimizer.step()
        with pytest.raises(
            RuntimeError,
            match=r"Can't detach views in-place. Use detach\(\) instead. If you are using "
            r"DistributedDataParallel \(DDP\)",
        ):
            model.module.last.bias.grad.detach_()

    run_members(2, member)


@pytest.mark.parametrize("name", ["allreduce", "fp16", "bf16", "fp16 of allreduce", "noop"])
def test_16_communication_hooks_reduce_the_buckets(name: str) -> None:
    def member(rank: int) -> list[Any]:
        model = DDP(seeded(Mlp).float(), bucket_cap_mb=1e-4)
        if name == "fp16 of allreduce":
            wrapped = default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)
            model.register_comm_hook(None, wrapped)
        else:
            kinds = {"allreduce": "ALLREDUCE", "fp16": "FP16_COMPRESS", "bf16": "BF16_COMPRESS"}
            register_ddp_comm_hook(DDPCommHookType[kinds.get(name, "NOOP")], model)
        for _ in range(2):
            model.zero_grad()
            mean_square(model(batch(rank).float())).backward()
        return grads(model)

    one, two = run_members(2, member)
    if name == "noop":
        assert one != two
        return
    assert one == two
    rtol = {"allreduce": 1e-5, "bf16": 3e-2}.get(name, 3e-3)
    for ours, expected in zip(one, grads_of_whole(Mlp, 2, mean_square), strict=True):
        np.testing.assert_allclose(ours, expected, rtol, 1e-2 * rtol * 10)


def test_16_hooks_get_buckets_and_their_errors_reach_backward() -> None:
    def member(rank: int) -> list[Any]:
        seen: list[Any] = []

        def hook(state: Any, bucket: dist.GradBucket) -> fd.futures.Future[fd.Tensor]:
            seen.append((bucket.index(), bucket.is_last(), len(bucket.parameters())))
            assert [g.shape for g in bucket.gradients()] == [p.shape for p in bucket.parameters()]
            assert state == "state"
            return (
                dist.group.WORLD.allreduce([bucket.buffer()])
                .get_future()
                .then(lambda future: future.value()[0] * 0 + 7)
            )

        model = DDP(TwoHeads(), bucket_cap_mb=20 / 2**20)
        model.register_comm_hook("state", hook)
        sum(one.sum() for one in model(fd.ones(1, 2))).backward()
        assert model.module.a.bias.grad.tolist() == [7.0, 7.0]
        assert model._get_ddp_logging_data()["comm_hook"].endswith("hook")

        def broken(state: Any, bucket: Any) -> Any:
            raise KeyError("mine")

        other = DDP(nn.Linear(2, 2))
        other.register_comm_hook(None, broken)
        with pytest.raises(KeyError, match="mine"):
            other(fd.ones(1, 2)).sum().backward()
        third = DDP(nn.Linear(2, 2))
        third.register_comm_hook(None, lambda state, bucket: bucket.buffer())
        with pytest.raises(TypeError, match=r"must return a torch\.futures\.Future"):
            third(fd.ones(1, 2)).sum().backward()
        return seen

    assert run_members(2, member) == [[(0, False, 2), (1, True, 2)]] * 2


def test_16_wrong_and_late_hooks_are_refused() -> None:
    def member(rank: int) -> None:
        model = DDP(nn.Linear(2, 2))

        def of_int(state: Any, bucket: int) -> Any: ...
        def to_int(state: Any, bucket: dist.GradBucket) -> int: ...
        def fine(state: Any, bucket: dist.GradBucket) -> Any: ...

        fine.__annotations__.clear()
        for kind, words, hook in (
            (TypeError, "must be callable", 3),
            (ValueError, "bucket annotation should be dist.GradBucket.", of_int),
            (ValueError, "return annotation should be torch.futures.Future", to_int),
        ):
            with pytest.raises(kind, match=f"Communication hook: {words}|hook {words}"):
                model.register_comm_hook(None, hook)  # type: ignore[arg-type]
        model.register_comm_hook(None, fine)
        with pytest.raises(
            RuntimeError,
            match=r"register_comm_hook or register_builtin_comm_hook can only be called once\.",
        ):
            model._register_builtin_comm_hook("ALLREDUCE")
        late = DDP(nn.Linear(2, 2))
        late(fd.ones(1, 2)).sum().backward()
        with pytest.raises(RuntimeError, match="was called after the first backward"):
            late.register_comm_hook(None, default_hooks.allreduce_hook)
        for options in (
            {"start_powerSGD_iter": 1},
            {"start_powerSGD_iter": 0, "warm_start": False},
        ):
            with pytest.raises(ValueError, match="Expect `start_powerSGD_iter` > 1"):
                powerSGD_hook.PowerSGDState(None, **options)  # type: ignore[arg-type]

    run_members(1, member)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("epsilon", [0, 1e-9])
def test_16_power_sgd_is_exact_at_full_rank_and_learns_at_rank_1(epsilon: float) -> None:
    def member(rank: int, width: int, rate: float) -> tuple[list[Any], float, Any]:
        model = DDP(seeded(lambda: nn.Linear(8, 8).double()))
        state = powerSGD_hook.PowerSGDState(
            None, width, 2, min_compression_rate=rate, orthogonalization_epsilon=epsilon
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        optimizer = fd.optim.SGD(model.parameters(), 0.05)
        losses = []
        for _ in range(30):
            optimizer.zero_grad()
            loss = mean_square(model(batch(rank, 4, 8)))
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
        return grads(model), losses[-1] / losses[0], state.compression_stats()

    (full, _, _), (again, _, _) = run_members(2, member, 8, 0.4)
    (plain, ratio, _), _ = run_members(2, member, 8, 100.0)
    assert full == again
    close(full, plain, 1e-6)
    (_, thin, stats), _ = run_members(2, member, 1, 2.0)
    assert thin < max(0.6, 1.5 * ratio) and stats[0] > 2


@pytest.mark.parametrize("by_initial", [True, False])
def test_17_uneven_inputs_are_shadowed(by_initial: bool) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1, bias=False).double()
            self.register_buffer("calls", fd.zeros(1))

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return self.layer(x)

    def member(rank: int) -> list[Any]:
        model = DDP(seeded(Counting))
        found = []
        with model.join(divide_by_initial_world_size=by_initial):
            for step in range(2 + rank):
                model.zero_grad()
                model(fd.full((1, 1), float(rank + 1)).double()).sum().backward()
                found.append(model.module.layer.weight.grad.item())
                if step == 0:
                    with model.no_sync():
                        model(fd.ones(1, 1).double())
        with model.join(enable=False):
            pass
        return [found, model.module.calls.item(), model.module.layer.weight.item()]

    first, second, third = run_members(3, member)
    assert first[0] == [2.0, 2.0]
    both, alone = (5 / 3, 1.0) if by_initial else (2.5, 3.0)
    assert np.allclose(second[0], [2.0, 2.0, both])
    assert np.allclose(third[0], [2.0, 2.0, both, alone])
    assert first[1:] == second[1:] == third[1:]


def test_17_a_join_may_throw_and_has_one_group() -> None:
    def member(rank: int) -> str:
        model = DDP(nn.Linear(1, 1))

        def train() -> None:
            with model.join(throw_on_early_termination=True):
                for _ in range(1 + rank):
                    model(fd.ones(1, 1)).sum().backward()

        with pytest.raises(RuntimeError) as found:
            train()
        other = DDP(nn.Linear(1, 1), process_group=dist.new_group([0, 1]))
        with pytest.raises(ValueError, match="multiple process groups"):
            Join([model, other], divide_by_initial_world_size=True)
        with pytest.raises(ValueError, match="at least one joinable"):
            Join([])
        return str(found.value)

    assert run_members(2, member) == [
        "Rank 0 exhausted all inputs.",
        "Detected at least one rank that exhausted inputs. Throwing across all ranks.",
    ]


def test_18_buffers_are_those_of_rank_0_before_each_forward_in_training() -> None:
    def member(rank: int) -> list[Any]:
        model = DDP(nn.BatchNorm1d(2))
        apart = DDP(nn.BatchNorm1d(2), broadcast_buffers=False)
        found = []
        for one in (model, apart):
            one(fd.full((2, 2), float(rank)) + fd.tensor([[0.0], [1.0]]))
            one.module.running_mean.fill_(rank + 5.0)
            one(fd.zeros(2, 2) + fd.tensor([[0.0], [1.0]]))
            found.append(round(one.module.running_mean[0].item(), 4))
        model.eval()
        with model.no_sync():
            for training in (False, True):
                model.train(training)
                model.module.running_mean.fill_(float(rank))
                with fd.no_grad():
                    model(fd.zeros(2, 2))
                found.append(model.module.running_mean[0].item() > 0)
        return found

    (one, two) = run_members(2, member)
    assert one == [4.55, 4.55, False, False]
    assert two == [4.55, 5.45, True, True]


@pytest.mark.parametrize("rows", [(4, 4), (2, 5), (3, 0)])
def test_18_sync_batch_norm_is_batch_norm_of_the_whole_batch(rows: tuple[int, int]) -> None:
    inputs = [batch(rank, count, 6).reshape(count, 3, 2) for rank, count in enumerate(rows)]

    def run(model: Any, x: Any) -> list[Any]:
        x = x.clone().requires_grad_()
        out = model(x)
        (out * fd.arange(2.0).double() + out.square()).sum().backward()
        bare = getattr(model, "module", model)
        return [
            out.tolist(),
            x.grad.tolist(),
            bare.running_mean.tolist(),
            bare.running_var.tolist(),
        ]

    def member(rank: int) -> Any:
        norm = nn.BatchNorm1d(3, momentum=0.3).double()
        model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(norm))
        found = run(model, inputs[rank])
        frozen = model.module.eval()
        frozen(inputs[rank])
        return found, grads(model)

    expected_model = nn.BatchNorm1d(3, momentum=0.3).double()
    out, x_grad, mean, var = run(expected_model, fd.cat(inputs))
    results = run_members(2, member)
    close([*chain.from_iterable(found[0] for found, _ in results)], out, 1e-10)
    close([*chain.from_iterable(found[1] for found, _ in results)], x_grad, 1e-8)
    for found, gradients in results:
        close(found[2:], [mean, var], 1e-10)
        # DDP averages over two members, but the loss is a sum.
        close([np.multiply(g, 2) for g in gradients], grads(expected_model), 1e-9)


def test_19_state_dicts_copies_and_pickles() -> None:
    def member(rank: int) -> None:
        model = DDP(seeded(Mlp))
        state = model.state_dict()
        assert all(name.startswith("module.") for name in state)
        bare = Mlp()
        bare.load_state_dict({name.removeprefix("module."): one for name, one in state.items()})
        assert bare.last.weight.tolist() == model.module.last.weight.tolist()
        file = io.BytesIO()
        fd.save(model, file)
        file.seek(0)
        for twin in (copy.deepcopy(model), fd.load(file, weights_only=False)):
            mean_square(twin(batch(rank))).backward()
            close(grads(twin), expected)
        assert grads(model) == [None] * 6
        group = dist.new_group([0, 1])
        with pytest.raises(RuntimeError, match="only supported when using DDP with the default"):
            copy.deepcopy(DDP(Mlp(), process_group=group))

    expected = grads_of_whole(Mlp, 2, mean_square)
    run_members(2, member)


def test_19_models_of_models_and_shared_layers() -> None:
    def member(rank: int) -> list[Any]:
        inner = DDP(seeded(Mlp))
        outer = DDP(inner)
        mean_square(outer(batch(rank))).backward()
        layer = seeded(lambda: nn.Linear(3, 1).double())
        first, second = DDP(nn.Sequential(layer)), DDP(nn.Sequential(layer, nn.Tanh()))
        mean_square(first(batch(rank))).backward()
        mean_square(second(batch(rank))).backward()
        return [grads(outer), grads(layer)]

    def whole() -> list[Any]:
        layer = seeded(lambda: nn.Linear(3, 1).double())
        x = fd.cat([batch(0), batch(1)])
        mean_square(layer(x)).backward()
        mean_square(layer(x).tanh()).backward()
        return grads(layer)

    one, two = run_members(2, member)
    assert one == two
    close(one[0], grads_of_whole(Mlp, 2, mean_square))
    close(one[1], whole())
