"""Behaviours 1 to 13 of DistributedDataParallel; the name of each test has its number."""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist import nn
from fastdist.utils.checkpoint import checkpoint
from tests.distributed.data_parallel.models import (
    DDP,
    Mlp,
    TwoHeads,
    batch,
    close,
    frozen,
    grads,
    grads_of_whole,
    mean_square,
    seeded,
    with_buffers,
)
from tests.distributed.process_group.thread_members import run_members


def test_01_a_group_is_needed() -> None:
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DDP(nn.Linear(2, 2))


def test_02_all_begin_with_the_model_of_rank_0() -> None:
    def member(rank: int) -> list[Any]:
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        with fd.no_grad():
            for one in (*model.parameters(), *model.buffers()):
                one.fill_(3 + rank)
        apart = DDP(seeded(lambda: nn.Linear(2, 1), rank), init_sync=False)
        DDP(model)
        values = [one.flatten()[0].item() for one in (*model.parameters(), *model.buffers())]
        return [values, next(apart.parameters()).tolist()]

    (first, one), (second, two) = run_members(2, member)
    assert first == second == [3.0] * 6 + [3] and one != two


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda rank: nn.Sequential(*(nn.Linear(2, 2) for _ in range(1 + rank))),
            (
                r"DDP expects same model across all ranks, but Rank 1 has 4 params, while rank 0 "
                r"has inconsistent 2 params; one rank alone has '1\.weight'"
            ),
        ),
        (
            lambda rank: nn.Linear(2, 2 + rank),
            (
                r"params\[0\] \(weight\) in this process with sizes \[3, 2\] appears not to match "
                r"sizes of the same param in process 0\."
            ),
        ),
        (lambda rank: nn.Linear(2, 2).to([fd.float32, fd.float64][rank]), "float64 on rank 1"),
        (frozen, "requires_grad is False on rank 1"),
        (with_buffers, "but Rank 1 has 2 buffers"),
    ],
)
def test_02_models_that_differ_are_an_error_on_all_members(make: Any, words: str) -> None:
    def member(rank: int) -> None:
        with pytest.raises(RuntimeError, match=words):
            DDP(make(rank))

    run_members(2, member)


def test_03_to_05_modules_devices_and_groups_are_checked() -> None:
    def member(rank: int) -> None:
        mesh = dist.init_device_mesh("cpu", (1, 1))
        other = dist.new_group([1]) if dist.get_world_size() > 1 else -100
        linear = nn.Linear(2, 2)
        for kind, words, call in (
            (RuntimeError, ("DistributedDataParallel is not needed when a module doesn't have any "
                "parameter that requires a gradient."), lambda: DDP(nn.ReLU())),
            (RuntimeError, ("Modules with uninitialized parameters can't be used with "
                "`DistributedDataParallel`. Run a dummy forward pass"),
                lambda: DDP(nn.LazyLinear(2))),
            (ValueError, "device_ids can only be None or contain a single element.",
                lambda: DDP(linear, device_ids=[0, 1])),
            (ValueError, "only work with single-device", lambda: DDP(linear, device_ids=[0])),
            (RuntimeError, "Cannot specify both process_group and device_mesh arguments.",
                lambda: DDP(linear, process_group=dist.group.WORLD, device_mesh=mesh)),
            (RuntimeError, "Only 1D device mesh is supported,",
                lambda: DDP(linear, device_mesh=mesh)),
            (ValueError, "Invalid process group specified",
                lambda: DDP(linear, process_group=other)),
            (NotImplementedError, "mixed_precision is not supported",
                lambda: DDP(linear, mixed_precision=3)),
        ):  # fmt: skip
            with pytest.raises(kind, match=words):
                call()
        with pytest.warns(FutureWarning, match="`check_reduction` argument"):
            DDP(linear, check_reduction=True)
        assert DDP(linear, device_mesh=dist.init_device_mesh("cpu", (1,))).process_group.size() == 1

    run_members(1, member)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("size", "backend"), [(2, "gloo"), (3, "threads"), (3, "gloo")])
@pytest.mark.parametrize("as_views", [False, True])
def test_06_gradients_are_those_of_one_process_on_the_whole_batch(
    size: int, backend: str, as_views: bool
) -> None:
    def member(rank: int) -> list[list[Any]]:
        model = DDP(seeded(Mlp), bucket_cap_mb=1e-4, gradient_as_bucket_view=as_views)
        found = []
        for step in range(3):
            model.zero_grad(set_to_none=step == 0)
            mean_square(model(batch(rank))).backward()
            found.append(grads(model))
        return found

    expected = grads_of_whole(Mlp, size, mean_square)
    first, *others = run_members(size, member, backend=backend)
    assert all(other == first for other in others)
    for found in first:
        close(found, expected)


def test_06_the_bits_do_not_depend_on_the_order_in_which_gradients_come() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(3, 2) for _ in range(4))

        def forward(self, x: Any, order: list[int]) -> Any:
            return sum(self.layers[index](x) for index in order)

    def member(rank: int, shuffled: bool) -> list[Any]:
        model = DDP(seeded(Branches), bucket_cap_mb=1e-5)
        order = [0, 1, 2, 3] if rank == 0 or not shuffled else [3, 1, 0, 2]
        for _ in range(2):
            model.zero_grad()
            model(batch(rank).float(), order).sum().backward()
        return grads(model)

    one, two = run_members(2, member, True)
    assert one == two == run_members(2, member, False)[0]


def test_07_buckets_are_filled_in_reverse_and_rebuilt_once() -> None:
    def member(rank: int) -> list[Any]:
        model = DDP(TwoHeads(), bucket_cap_mb=20 / 2**20)
        lists = [[bucket.indices for bucket in model.reducer.buckets]]
        for _ in range(3):
            # The gradients of `a` are ready first, because `a` is used last.
            outs = model(fd.ones(1, 2), uses="ba")
            (outs[0].sum() + outs[1].sum() * 2).backward()
            lists.append([bucket.indices for bucket in model.reducer.buckets])
        data = model._get_ddp_logging_data()
        assert data["has_rebuilt_buckets"] == 1 and data["iteration"] == 2
        assert data["rebuilt_bucket_sizes"] == data["bucket_sizes"]
        assert data["total_parameter_size_bytes"] == 48 and data["world_size"] == 2
        assert data["avg_backward_comm_time"] > 0 and data["avg_forward_compute_time"] > 0
        return lists

    lists = run_members(2, member)
    assert lists[0] == lists[1]
    assert lists[0][0] == lists[0][1] == [[3, 2], [1, 0]]
    assert lists[0][2] == lists[0][3]
    assert sorted(chain.from_iterable(lists[0][2])) == [0, 1, 2, 3]


def test_07_the_first_bucket_is_full_at_1_mib_and_dtypes_have_their_own() -> None:
    from fastdist.distributed.data_parallel.buckets import assign

    mib = 2**18  # elements of float32
    parameters = [fd.empty(n, dtype=t) for n, t in (
        (mib * 2, fd.float32), (mib, fd.float32), (8, fd.float64), (mib // 2, fd.float32),
        (mib // 2, fd.float32),
    )]  # fmt: skip
    found = assign(parameters, [4, 3, 2, 1, 0], 2**20, 3 * 2**20)
    assert found == [[4, 3], [2], [1, 0]]
    assert assign(parameters, [4, 3, 2, 1, 0], 2**20, 2**22, frozenset({3})) == [
        [4, 1], [3], [2], [0],
    ]  # fmt: skip


def test_08_the_first_bucket_is_reduced_before_backward_ends() -> None:
    class Gate(fd.autograd.Function):
        """Blocks backward until a reduction has ended."""

        @staticmethod
        def forward(ctx: Any, x: Any, model: Any) -> Any:
            ctx.model = model
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            reducer = ctx.model.reducer
            assert 0 < reducer._launched < len(reducer.buckets)
            assert reducer.buckets[0].work.wait()
            passed.append(threading.get_ident())
            return grads[0], None

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Any, model: Any) -> Any:
            return self.last(Gate.apply(self.first(x), model))

    def member(rank: int) -> None:
        model = DDP(Gated(), bucket_cap_mb=1e-6)
        model(fd.ones(1, 2), model).sum().backward()

    passed: list[int] = []
    run_members(2, member)
    assert len(passed) == 2


def test_08_reductions_are_on_the_time_line_of_their_own_threads() -> None:
    def member(rank: int) -> None:
        model = DDP(TwoHeads(), bucket_cap_mb=20 / 2**20)
        sum(one.sum() for one in model(fd.ones(1, 2))).backward()

    with fd.profiler.profile() as profile:
        run_members(2, member)
    found = [event for event in profile.events() if event.name == "threads:all_reduce"]
    backward = [event for event in profile.events() if event.name == "AddmmBackward0"]
    assert len(found) == 4 and backward
    assert {event.thread for event in found}.isdisjoint({event.thread for event in backward})


def test_09_unused_parameters_are_named_at_the_next_forward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def member(rank: int) -> None:
        model = DDP(TwoHeads())
        model(fd.ones(1, 2), uses="a")[0].sum().backward()
        with pytest.raises(RuntimeError) as found:
            model(fd.ones(1, 2))
        text = str(found.value)
        for words in (
            (
                "Expected to have finished reduction in the prior iteration before starting a new "
                "one. This error indicates that your module has parameters that were not used"
            ),
            "passing the keyword argument `find_unused_parameters=True`",
            f"Parameter indices which did not receive grad for rank {rank}: 2 3",
            f"Parameters which did not receive grad for rank {rank}: b.weight, b.bias",
        ):
            assert words in text

    run_members(2, member)


@dataclass
class Out:
    y: Any
    more: dict[str, Any]


@pytest.mark.parametrize("as_views", [False, True])
def test_10_unused_parameters_are_found(as_views: bool) -> None:
    class Nested(TwoHeads):
        def __init__(self) -> None:
            super().__init__()
            self.never = nn.Linear(2, 2)

        def forward(self, x: Any, uses: str = "ab") -> Any:
            found = super().forward(x, uses)
            return Out((found[0],), {"rest": found[1:]})

    def member(rank: int) -> list[Any]:
        model = DDP(seeded(Nested), find_unused_parameters=True, gradient_as_bucket_view=as_views)
        x = fd.ones(1, 2)
        out = model(x, uses="ab" if rank == 0 else "a")
        loss = out.y[0].sum()
        if rank == 0:
            loss = loss + out.more["rest"][0].sum()
        loss.backward()
        first = grads(model)
        # Some outputs are not part of the loss, which only uses `b`.
        model.zero_grad()
        model(x, uses="ba").y[0].sum().backward()
        model(x)
        return [first, grads(model)]

    results = run_members(2, member)
    assert results[0] == results[1]
    first, second = results[0]
    ones, halves = [[1.0, 1.0]] * 2, [[0.5, 0.5]] * 2
    assert first == [ones, [1.0, 1.0], halves, [0.5, 0.5], None, None]
    assert second == [None, None, ones, [1.0, 1.0], None, None]


def test_11_no_unused_parameters_are_a_warning_once() -> None:
    def member(rank: int) -> int:
        model = DDP(TwoHeads(), find_unused_parameters=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                sum(one.sum() for one in model(fd.ones(1, 2))).backward()
        return sum(
            "find_unused_parameters=True was specified in DDP constructor, but did not find any "
            "unused parameters in the forward pass." in str(one.message)
            for one in caught
        )

    assert run_members(1, member) == [1]


def test_12_a_gradient_that_comes_twice_is_an_error_that_names_it() -> None:
    class Reentrant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            x = checkpoint(self.layer, x, use_reentrant=True)
            return checkpoint(self.layer, x, use_reentrant=True)

    def member(rank: int, options: dict[str, Any]) -> None:
        model = DDP(Reentrant(), **options)
        out = model(fd.ones(1, 2, requires_grad=True))
        with pytest.raises(
            RuntimeError,
            match=r"Expected to mark a variable ready only once\.[\s\S]*at index \d with name "
            r"layer\.(weight|bias) has been",
        ):
            out.sum().backward()

    run_members(1, member, {})
    run_members(1, member, {"find_unused_parameters": True})


class Checkpointed(nn.Module):
    """A layer shared by two checkpointed parts, and a layer that is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.never = nn.Linear(3, 3).double(), nn.Linear(1, 1)
        self.last = nn.Linear(3, 2).double()

    def forward(self, x: Any) -> Any:
        for _ in range(2):
            x = checkpoint(self.shared, x, use_reentrant=True)
        return self.last(x)


@pytest.mark.parametrize("late", [False, True])
def test_13_a_static_graph_may_have_shared_checkpointed_and_unused_parts(late: bool) -> None:
    def member(rank: int) -> list[list[Any]]:
        model = DDP(seeded(Checkpointed), static_graph=not late, bucket_cap_mb=1e-4)
        if late:
            model._set_static_graph()
        found = []
        for _ in range(3):
            model.zero_grad()
            mean_square(model(batch(rank).requires_grad_())).backward()
            found.append(grads(model))
        with pytest.raises(RuntimeError, match="should be called before training loop starts"):
            model._set_static_graph()
        return found

    def whole() -> list[Any]:
        model = seeded(Checkpointed)
        mean_square(model(fd.cat([batch(0), batch(1)]).requires_grad_())).backward()
        return grads(model)

    one, two = run_members(2, member)
    assert one == two
    expected = whole()
    for found in one:
        assert [g is None for g in found] == [g is None for g in expected]
        close([g for g in found if g is not None], [g for g in expected if g is not None])


def test_13_a_change_of_a_static_graph_is_an_error() -> None:
    def member(rank: int) -> None:
        model = DDP(TwoHeads(), static_graph=True)
        model(fd.ones(1, 2), uses="a")[0].sum().backward()
        with pytest.raises(RuntimeError, match="Your training graph has changed in this iter"):
            sum(one.sum() for one in model(fd.ones(1, 2))).backward()
        other = DDP(TwoHeads(), static_graph=True)
        sum(one.sum() for one in other(fd.ones(1, 2))).backward()
        other(fd.ones(1, 2), uses="a")[0].sum().backward()
        with pytest.raises(
            RuntimeError,
            match=r"this is not compatible with static_graph set to True\.\nParameter indices "
            r"which did not receive grad for rank 0: 2 3",
        ):
            other(fd.ones(1, 2))

    run_members(1, member)
