"""Details of the reducer: its hooks, hooks of buckets, timers and errors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist import nn
from fastdist.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks
from fastdist.distributed.algorithms.join import Join, JoinHook, share
from fastdist.distributed.data_parallel.backward_pass import tensors_in
from fastdist.distributed.data_parallel.buckets import Bucket
from fastdist.distributed.data_parallel.times import Times
from tests.distributed.data_parallel.models import DDP, TwoHeads
from tests.distributed.process_group.thread_members import run_members


def test_hooks_can_be_removed_and_do_not_keep_the_model_alive() -> None:
    def member(rank: int) -> list[Any]:
        layer = nn.Linear(1, 1, bias=False)
        model = DDP(layer)
        model._remove_autograd_hooks()
        model(fd.full((1, 1), rank + 1.0)).sum().backward()
        found = [layer.weight.grad.item()]  # type: ignore[union-attr]
        other = DDP(nn.Linear(1, 1, bias=False))
        inner, known = other.module, weakref.ref(other.reducer)
        del other
        gc.collect()
        inner(fd.full((1, 1), rank + 1.0)).sum().backward()
        return [*found, inner.weight.grad.item(), known() is None]

    assert run_members(2, member) == [[1.0, 1.0, True], [2.0, 2.0, True]]


def test_a_module_called_without_the_wrapper_keeps_its_own_gradients() -> None:
    def member(rank: int) -> list[float]:
        model = DDP(nn.Linear(1, 1, bias=False))
        x = fd.full((1, 1), rank + 1.0)
        model(x).sum().backward()
        reduced = model.module.weight.grad.item()
        model.zero_grad()
        model.module(x).sum().backward()
        return [reduced, model.module.weight.grad.item()]

    assert run_members(2, member) == [[1.5, 1.0], [1.5, 2.0]]


def test_a_model_can_go_on_with_another_group() -> None:
    def member(rank: int) -> list[float]:
        model = DDP(nn.Linear(1, 1, bias=False))
        pair = dist.new_group([0, 1])
        if rank == 2:
            return []
        model._update_process_group(pair)
        model(fd.full((1, 1), rank + 1.0)).sum().backward()
        return [model.module.weight.grad.item(), model._get_ddp_logging_data()["world_size"]]

    assert run_members(3, member) == [[1.5, 2], [1.5, 2], []]


def test_built_in_hooks_and_buckets_of_hooks() -> None:
    def member(rank: int) -> list[Any]:
        model = DDP(nn.Linear(1, 1, bias=False))
        with pytest.raises(ValueError, match="no built-in communication hook 'qwyx'"):
            model._register_builtin_comm_hook("qwyx")
        model._register_builtin_comm_hook("FP16_COMPRESS")
        model(fd.full((1, 1), rank + 1.0)).sum().backward()
        other, texts = DDP(nn.Linear(1, 1, bias=False)), []

        def doubled(state: Any, bucket: dist.GradBucket) -> Any:
            texts.append(repr(bucket))
            bucket.set_buffer(bucket.buffer() * 2)
            return debugging_hooks.noop_hook(state, bucket)

        other.register_comm_hook(None, default_hooks.bf16_compress_wrapper(doubled))
        other(fd.full((1, 1), rank + 1.0)).sum().backward()
        return [model.module.weight.grad.item(), other.module.weight.grad.item(), texts]

    text = ["GradBucket(0, 1 numbers)"]
    assert run_members(2, member) == [[1.5, 2.0, text], [1.5, 4.0, text]]


def test_a_sparse_gradient_in_static_and_uneven_training() -> None:
    def member(rank: int) -> list[Any]:
        model = DDP(nn.Embedding(3, 1, sparse=True))
        found = []
        with model.join(divide_by_initial_world_size=False):
            for _ in range(1 + rank):
                model.zero_grad()
                model(fd.tensor([rank])).sum().backward()
                found.append(model.module.weight.grad.to_dense().flatten().tolist())
        return found

    assert run_members(2, member) == [
        [[0.5, 0.5, 0.0]],
        [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]],
    ]


def test_ignored_parameters_stay_as_they_are() -> None:
    def member(rank: int) -> list[Any]:
        layer = TwoHeads()
        with fd.no_grad():
            for one in layer.parameters():
                one.fill_(rank + 1.0)
        DDP._set_params_and_buffers_to_ignore_for_model(layer, ["b.weight", "b.bias"])
        model = DDP(layer)
        outs = model(fd.full((1, 2), rank + 1.0))
        (outs[0].sum() + outs[1].sum()).backward()
        return [layer.a.weight[0, 0].item(), layer.b.weight[0, 0].item(),
            layer.a.weight.grad[0, 0].item(), layer.b.weight.grad[0, 0].item()]  # type: ignore[index]  # fmt: skip

    assert run_members(2, member) == [[1.0, 1.0, 1.5, 1.0], [1.0, 2.0, 1.5, 2.0]]


def test_joins_of_others_are_counted() -> None:
    class Counter:
        """A joinable that sums a number over members in each iteration."""

        _join_config: Any = None

        def __init__(self) -> None:
            self.total, self.join_process_group = 0, dist.group.WORLD
            self.last: bool | None = None

        def step(self, number: int) -> None:
            Join.notify_join_context(self)
            self.add(number)

        def add(self, number: int) -> None:
            self.total += sum(share(self.join_process_group, number))

        def join_hook(self, **kwargs: Any) -> JoinHook:
            outer = self

            class Hook(JoinHook):
                def main_hook(self) -> None:
                    outer.add(0)

                def post_hook(self, is_last_joiner: bool) -> None:
                    outer.last = is_last_joiner

            return Hook()

    def member(rank: int) -> list[Any]:
        counter = Counter()
        with Join([counter]):
            for _ in range(1 + 2 * rank):
                counter.step(rank + 1)
        counter.step(1)  # outside of the block, other members are not notified
        return [counter.total, counter.last]

    assert run_members(2, member) == [[9, False], [9, True]]


def test_outputs_are_searched_in_containers() -> None:
    one, two = fd.ones(1), fd.zeros(1)
    assert list(tensors_in({"a": [one, (two, 3)], "b": None})) == [one, two]
    assert list(tensors_in(3)) == [] and list(tensors_in({one})) == [one]


def test_views_of_a_bucket_have_the_strides_of_dense_parameters() -> None:
    plain, turned = fd.empty(2, 3), fd.empty(3, 2).t()
    gaps = fd.empty(2, 6)[:, ::2]
    bucket = Bucket([0, 1, 2], [plain, turned, gaps], sparse=False)
    assert [view.stride() for view in bucket.views] == [(3, 1), (1, 2), (3, 1)]
    assert bucket.nbytes == 18 * 4 and bucket.flat.tolist() == [0.0] * 18


def test_times_are_means_over_the_iterations() -> None:
    times = Times()
    assert times.means() == {}
    for _ in range(2):
        for name in ("forward", "forward_end", "backward", "comm", "backward_end", "comm_end"):
            times.mark(name)
        times.mark("backward", keep=True)
        times.finish()
    means = times.means()
    assert means["avg_backward_comm_time"] >= means["avg_backward_compute_comm_overlap_time"] > 0
    assert means["forward_compute_time"] > 0 and "backward_compute_time" in means


def test_logs_have_the_last_error_and_times_of_one_in_so_many_iterations() -> None:
    def member(rank: int) -> None:
        model = DDP(nn.Linear(1, 1))
        data = model._get_ddp_logging_data()
        assert (data["has_error"], data["error"]) == (0, "") and "comm_hook" not in data
        with pytest.raises(ValueError, match="equal or greater than 1"):
            model._set_ddp_runtime_logging_sample_rate(0)
        model(fd.ones(1, 1)).sum().backward()
        with pytest.raises(RuntimeError, match="before training loop starts"):
            model._set_static_graph()
        data = model._get_ddp_logging_data()
        assert data["has_error"] == 1 and "before training loop starts" in data["error"]

    run_members(1, member)
    times = Times()
    times.sample_rate = 3
    counts = []
    for _ in range(13):
        times.mark("forward")
        times.mark("forward_end")
        times.finish()
        counts.append(times._counts["forward_compute_time"])
    assert counts == [*range(1, 11), 10, 10, 11] and times.last_kept == 12


def test_a_hook_that_returns_no_future_is_a_type_and_a_runtime_error() -> None:
    def member(rank: int) -> None:
        for kind in (TypeError, RuntimeError):
            model = DDP(nn.Linear(1, 1))
            model.register_comm_hook(None, lambda state, bucket: 1)
            with pytest.raises(kind, match=r"must return a torch\.futures\.Future object, but"):
                model(fd.ones(1, 1)).sum().backward()

    run_members(1, member)
