"""Behaviours 20 to 25 of DistributedDataParallel; the name of each test has its number."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist import nn
from fastdist.core.errors import (
    CollectiveLostError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
)
from tests.distributed.data_parallel.models import (
    DDP,
    Mlp,
    batch,
    close,
    grads,
    grads_of_whole,
    mean_square,
    seeded,
)
from tests.distributed.process_group.thread_members import run_members


def test_20_complex_sparse_mixed_and_strided_parameters() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c = nn.Parameter(fd.ones(2, dtype=fd.complex64))
            self.d = nn.Parameter(fd.ones(2, dtype=fd.float64))
            self.h = nn.Parameter(fd.ones(2, dtype=fd.float16))
            self.e = nn.Embedding(5, 2, sparse=True)
            self.conv = nn.Conv2d(2, 3, 2).to(memory_format=fd.channels_last)

        def forward(self, rank: int) -> Any:
            image = self.conv(fd.full((1, 2, 2, 2), rank + 1.0)).sum()
            words = self.e(fd.tensor([rank, 4])).sum()
            return (
                (self.c * (1 + 1j * rank)).abs().sum() + self.d.sum() * rank + image + words
                + (self.h * (40000 if rank else 30000)).float().sum()
            )  # fmt: skip

    def member(rank: int) -> list[Any]:
        model = DDP(Mixed())
        for _ in range(2):
            model.zero_grad()
            model(rank).backward()
        bare: Any = model.module
        assert bare.e.weight.grad.is_sparse
        assert bare.conv.weight.grad.stride() == bare.conv.weight.stride() != (8, 4, 2, 1)
        kinds = {frozenset(model.reducer.parameters[i].dtype for i in b.indices)
            for b in model.reducer.buckets}  # fmt: skip
        assert all(len(kind) == 1 for kind in kinds)
        return [
            bare.c.grad.tolist(), bare.d.grad.tolist(), bare.h.grad.tolist(),
            bare.e.weight.grad.to_dense().sum(1).tolist(), bare.conv.weight.grad.unique().tolist(),
        ]  # fmt: skip

    one, two = run_members(2, member)
    assert one == two
    assert one[1:] == [[0.5, 0.5], [35008.0, 35008.0], [1.0, 1.0, 0.0, 0.0, 2.0], [1.5]]
    assert np.allclose(one[0], (1 + 2**0.5) / 2)


def test_20_amp_scales_and_unscales() -> None:
    def member(rank: int) -> list[Any]:
        model = DDP(seeded(Mlp).float())
        scaler = fd.amp.GradScaler("cpu", init_scale=2.0**8)
        optimizer = fd.optim.SGD(model.parameters(), 0.1)
        with fd.autocast("cpu", dtype=fd.bfloat16):
            loss = mean_square(model(batch(rank).float()).float())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        return grads(model)

    one, two = run_members(2, member)
    assert one == two
    for ours, expected in zip(one, grads_of_whole(Mlp, 2, mean_square), strict=True):
        np.testing.assert_allclose(ours, expected, 0.1, 0.02)


def test_21_groups_of_some_processes() -> None:
    def member(rank: int) -> Any:
        group = dist.new_group([0, 2])
        if rank == 1:
            with pytest.raises(ValueError, match="Invalid process group specified"):
                DDP(nn.Linear(1, 1), process_group=group)
            with pytest.warns(UserWarning, match="does not belong to"):
                dist.barrier(group)
            return None
        model = DDP(nn.Linear(1, 1, bias=False), process_group=group)
        model(fd.full((1, 1), float(rank))).sum().backward()
        return model.module.weight.grad.item()

    assert run_members(3, member) == [1.0, None, 1.0]


def test_22_gradients_of_gradients_are_right_or_an_error() -> None:
    def member(rank: int) -> list[Any]:
        model = DDP(seeded(Mlp))
        x = batch(rank).requires_grad_()
        with pytest.raises(RuntimeError, match=r"backward\(create_graph=True\) through"):
            mean_square(model(x)).backward(create_graph=True)
        model.zero_grad()
        loss = mean_square(model(x))
        with pytest.raises(
            RuntimeError, match=r"of this process alone, for the parameters first\.weight: call"
        ):
            fd.autograd.grad(loss, model.module.first.weight)
        with model.no_sync():
            (alone,) = fd.autograd.grad(mean_square(model(x)), [model.module.first.weight])
        # A penalty on the gradient by the input. Unlike a parameter, the input is not shared.
        out = model(x)
        (by_input,) = fd.autograd.grad(out.sum(), x, create_graph=True)
        (mean_square(out) + by_input.square().sum() / len(x)).backward()
        return [grads(model), alone.tolist()]

    def whole() -> list[Any]:
        model = seeded(Mlp)
        x = fd.cat([batch(0), batch(1)]).requires_grad_()
        out = model(x)
        (by_input,) = fd.autograd.grad(out.sum(), x, create_graph=True)
        (mean_square(out) + by_input.square().sum() / len(x)).backward()
        return grads(model)

    one, two = run_members(2, member)
    assert one[0] == two[0] and one[1] != two[1]
    close(one[0], whole())


def test_22_several_losses_are_all_reduced() -> None:
    def member(rank: int) -> list[Any]:
        model = DDP(seeded(Mlp))
        out = model(batch(rank))
        out[:, 0].square().mean().backward(retain_graph=True)
        out[:, 1].square().mean().backward()
        two = DDP(seeded(Mlp))
        first, second = two(batch(rank)), two(batch(rank) * 2)
        mean_square(first).backward()
        mean_square(second).backward()
        return [grads(model), grads(two)]

    def whole() -> list[Any]:
        model, two = seeded(Mlp), seeded(Mlp)
        x = fd.cat([batch(0), batch(1)])
        (model(x)[:, 0].square().mean() + model(x)[:, 1].square().mean()).backward()
        (mean_square(two(x)) + mean_square(two(x * 2))).backward()
        return [grads(model), grads(two)]

    one, two = run_members(2, member)
    assert one == two
    for ours, expected in zip(one, whole(), strict=True):
        close(ours, expected)


def test_23_forward_mode_and_vmap_are_local_and_right() -> None:
    levels = threading.Lock()

    def member(rank: int) -> list[Any]:
        bare = seeded(Mlp)
        model = DDP(seeded(Mlp))
        x, tangent = batch(rank), batch(7)
        with levels:  # all threads share the levels of forward mode, so they take turns
            out, derivative = fd.func.jvp(model, (x,), (tangent,))
            expected, wanted = fd.func.jvp(bare, (x,), (tangent,))
        assert out.tolist() == expected.tolist() and derivative.tolist() == wanted.tolist()
        mapped = fd.vmap(model)(x)
        close([mapped.tolist()], [bare(x).tolist()])
        mean_square(fd.vmap(model)(x)).backward()
        return grads(model)

    one, two = run_members(2, member)
    assert one == two
    close(one, grads_of_whole(Mlp, 2, mean_square))


def test_24_a_lost_member_ends_backward_on_all_others_and_is_named() -> None:
    def member(rank: int) -> None:
        model = DDP(nn.Linear(1, 1))
        loss = model(fd.ones(1, 1)).sum()
        if rank == 1:
            dist.group.WORLD._carriers["threads"].lose()
            return
        with pytest.raises(CollectiveLostError, match="rank 1 is lost"):
            loss.backward()

    run_members(3, member)


def test_24_a_member_that_does_not_come_is_named() -> None:
    def member(rank: int) -> None:
        model = DDP(nn.Linear(1, 1))
        if rank == 0:
            with pytest.raises(CollectiveTimeoutError, match=r"ranks \[1\]"):
                model(fd.ones(1, 1)).sum().backward()

    run_members(2, member, timeout=timedelta(milliseconds=50))


def test_25_a_mismatch_in_backward_is_an_error_on_every_member() -> None:
    def member(rank: int) -> str:
        model = DDP(nn.Linear(1, 1))
        loss = model(fd.ones(1, 1)).sum()
        call = loss.backward if rank == 0 else dist.barrier
        with pytest.raises(CollectiveMismatchError) as found:
            call()
        return str(found.value)

    for text in run_members(2, member):
        assert "all_reduce" in text and "barrier" in text
        assert text.count("test_behaviours_20_to_25.py:") == 2
