"""The parts of data-parallel training: buckets, timers, hooks, messages, and model comparison."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist import nn
from fastdist.distributed.data_parallel import (
    backward_pass,
    buckets,
    comm_hooks,
    messages,
    same_model,
    times,
)
from fastdist.distributed.data_parallel.buckets import Bucket, assign
from fastdist.distributed.data_parallel.grad_bucket import GradBucket, value_of
from fastdist.distributed.data_parallel.times import Times
from tests.distributed.data_parallel.models import DDP, TwoHeads
from tests.distributed.process_group.thread_members import run_members

# ---- buckets ------------------------------------------------------------------------------------


def floats(*sizes: int) -> list[fd.Tensor]:
    return [fd.zeros(size) for size in sizes]


@pytest.mark.parametrize(
    ("sizes", "first", "cap", "expected"),
    [
        ([1, 1, 1, 1], 4, 8, [[0], [1, 2], [3]]),
        ([1, 1, 1, 1], 5, 8, [[0, 1], [2, 3]]),
        ([1, 1, 1, 1], 1, 1, [[0], [1], [2], [3]]),
        ([4, 1, 1, 4], 8, 8, [[0], [1, 2], [3]]),
        ([1, 1], 100, 100, [[0, 1]]),
        ([0, 2, 0], 8, 8, [[0, 1], [2]]),
    ],
)
def test_a_bucket_is_full_from_its_size_on(
    sizes: list[int], first: int, cap: int, expected: list[list[int]]
) -> None:
    assert assign(floats(*sizes), range(len(sizes)), first, cap) == expected


def test_buckets_have_one_dtype_and_come_by_their_first_gradient() -> None:
    parameters = [fd.zeros(1), fd.zeros(1).double(), fd.zeros(1), fd.zeros(1).double()]
    assert assign(parameters, range(4), 8, 8) == [[0, 2], [1], [3]]
    found = assign(parameters, [3, 2, 1, 0], 8, 16)
    # One number fills the first bucket of float64, two numbers fill the first bucket of float32.
    assert found == [[3], [2, 0], [1]]
    assert assign(parameters, [0, 1, 2, 3], 100, 100, frozenset({1})) == [[0, 2], [1], [3]]
    assert assign(parameters, [1, 0, 3, 2], 100, 100, frozenset({0, 2})) == [[1, 3], [0], [2]]
    assert buckets.first_bytes() == dist._DEFAULT_FIRST_BUCKET_BYTES == 1 << 20


def test_a_bucket_holds_parts_of_one_tensor() -> None:
    parameters = [fd.zeros(2, 3), fd.zeros(4), fd.zeros(()), fd.zeros(0, 5)]
    bucket = Bucket([2, 0, 3], parameters, sparse=False)
    bucket.flat.copy_(fd.arange(7.0))
    assert [view.tolist() for view in bucket.views] == [0.0, [[1, 2, 3], [4, 5, 6]], []]
    assert [view.shape for view in bucket.views] == [(), (2, 3), (0, 5)]
    assert bucket.nbytes == 28 and bucket.pending == 0 and bucket.work is None
    empty = Bucket([1], parameters, sparse=True)
    assert empty.flat.numel() == 0 and empty.views == [] and empty.nbytes == 16
    assert buckets._c_strides((2, 0, 3)) == (3, 3, 1) and buckets._c_strides(()) == ()
    given = GradBucket(bucket, 3, True, parameters[:1])
    assert given.index() == 3 and given.is_last() and given.parameters() == parameters[:1]
    assert given.buffer() is bucket.flat and repr(given) == "GradBucket(3, 7 numbers)"
    given.set_buffer(fd.arange(7.0) * 2)
    assert given.gradients()[1].tolist() == [[2, 4, 6], [8, 10, 12]]
    assert bucket.views[1].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert GradBucket.__module__ == "fastdist.distributed.distributed_c10d"


def test_a_hooks_future_may_have_a_tensor_or_a_list() -> None:
    x = fd.ones(1)
    for value in (x, [x], (x, 3)):
        assert value_of(SimpleNamespace(wait=lambda value=value: value)) is x


# ---- times --------------------------------------------------------------------------------------


def test_times_are_those_between_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(times, "time", SimpleNamespace(perf_counter_ns=lambda: now[0]))
    found = Times()
    for forward, backward, comm in ((10, 100, 300), (30, 200, 150)):
        for name, at, keep in (
            *(("forward", 0, False), ("forward_end", forward, False)),
            *(("backward", 50, True), ("comm", 90, True), ("comm", 95, True)),
            *(("backward", 99, True), ("backward_end", backward, False)),
            *(("comm_end", comm, False),),
        ):
            now[0] = at
            found.mark(name, keep=keep)
        found.finish()
    assert found.means() == {
        "forward_compute_time": 30,
        "avg_forward_compute_time": 20,
        "backward_compute_time": 150,
        "avg_backward_compute_time": 100,
        "backward_comm_time": 60,
        "avg_backward_comm_time": 135,
        "backward_compute_comm_overlap_time": 60,
        "avg_backward_compute_comm_overlap_time": 35,
    }
    # Without `keep` the last mark counts. Without an end mark or a start mark there is no time.
    for name, at in (("forward", 1), ("forward", 5), ("forward_end", 7), ("comm", 9)):
        now[0] = at
        found.mark(name)
    found.finish()
    assert found.means()["forward_compute_time"] == 2
    assert found.means()["avg_forward_compute_time"] == 14
    assert found.means()["avg_backward_comm_time"] == 135
    for name, at in (("backward_end", 5), ("comm", 9), ("comm_end", 12)):
        now[0] = at
        found.mark(name)
    found.finish()
    assert found.means()["backward_compute_comm_overlap_time"] == 0


def test_one_thread_at_a_time_marks_and_reads() -> None:
    found = Times()
    for method in (lambda: found.mark("forward"), found.finish, found.means):
        thread = threading.Thread(target=method)
        with found._lock:
            thread.start()
            thread.join(0.02)
            assert thread.is_alive()
        thread.join()


# ---- hooks --------------------------------------------------------------------------------------


def hook_of(bucket: Any = inspect.Parameter.empty, result: Any = inspect.Signature.empty) -> Any:
    """Return a hook with these annotations."""

    def hook(state: Any, bucket: Any) -> Any:
        return bucket

    annotations = {"bucket": bucket, "return": result}
    hook.__annotations__ = {
        name: one for name, one in annotations.items() if one is not inspect.Parameter.empty
    }
    return hook


@pytest.mark.parametrize(
    "annotation",
    [
        *(inspect.Parameter.empty, Any, "Any", GradBucket, "dist.GradBucket", "GradBucket"),
        "torch.distributed.GradBucket",
    ],
)
def test_hooks_may_be_annotated_as_what_they_get(annotation: Any) -> None:
    comm_hooks.require_hook(hook_of(annotation))
    comm_hooks.require_hook(lambda state, other: None)


@pytest.mark.parametrize(
    "annotation", [inspect.Signature.empty, Any, "Any", fd.futures.Future, "Future[Tensor]"]
)
def test_hooks_may_be_annotated_as_what_they_return(annotation: Any) -> None:
    comm_hooks.require_hook(hook_of(Any, annotation))


def test_what_is_no_hook_is_refused() -> None:
    for wrong in (int, "Bucket", None):
        with pytest.raises(ValueError, match=r"bucket annotation should be dist\.GradBucket\."):
            comm_hooks.require_hook(hook_of(wrong))
    for wrong in (int, "Tensor", None):
        with pytest.raises(ValueError, match=r"should be torch\.futures\.Future\[torch\.Tensor\]"):
            comm_hooks.require_hook(hook_of(Any, wrong))
    with pytest.raises(TypeError, match="must be callable"):
        comm_hooks.require_hook(3)
    bucket: Any = SimpleNamespace(wait=lambda: None)
    assert comm_hooks.call_hook(hook_of(), "state", bucket) is bucket
    with pytest.raises(
        TypeError, match=r"must return a torch\.futures\.Future object, but got int"
    ):
        comm_hooks.call_hook(lambda state, bucket: 3, "state", bucket)


def test_errors_of_gradients_that_are_missing_say_what_can_be_done() -> None:
    names = ["a", "b", "c"]
    for finds, static, words in (
        (False, False, "find_unused_parameters=True` to `torch.nn"),
        (True, False, "Since `find_unused_parameters=True` is enabled"),
        (True, True, "static_graph set to True"),
        (False, True, "static_graph set to True"),
    ):
        text = messages.unfinished(3, [0, 2], names, finds=finds, static=static)
        assert text.startswith("Expected to have finished reduction in the prior iteration")
        assert words in text
        assert text.endswith(
            "\nParameter indices which did not receive grad for rank 3: 0 2"
            "\nParameters which did not receive grad for rank 3: a, c"
        )
    assert "at index 4 with name w has been marked as ready twice" in messages.ready_twice(4, "w")
    assert "at index 4 with name w." in messages.graph_changed(4, "w")
    assert "for the parameters a, b: call backward()" in messages.not_reduced(iter("ab"))


# ---- the graph ----------------------------------------------------------------------------------


@dataclass
class Pair:
    one: Any
    other: Any


def test_outputs_are_searched_in_what_may_hold_them() -> None:
    a, b, c = fd.ones(1), fd.ones(2), fd.ones(3)
    found = [*backward_pass.tensors_in([Pair(a, {"b": (b,)}), Pair, frozenset({c}), "text", None])]
    assert found == [a, b, c]
    x = fd.ones(1, requires_grad=True)
    y, z = x * 2, x + 1
    outputs = [y, (z, y), fd.ones(1), x]
    nodes = backward_pass.nodes_of_outputs(outputs)
    assert len(nodes) == 3 and nodes[0] is y.grad_fn
    assert [leaf.variable is x for leaf in backward_pass.leaves_below(nodes)] == [True]
    assert backward_pass.leaves_below([]) == set()


def test_a_pass_is_announced_where_it_reaches_an_output_and_not_at_leaves() -> None:
    x, begun = fd.ones(1, requires_grad=True), list[str]()
    y = x * 2
    nodes = backward_pass.nodes_of_outputs([y, x])
    backward_pass.call_when_reached(nodes, lambda: begun.append("begun"))
    x.sum().backward()
    assert begun == []
    (y * 3).sum().backward()
    assert begun == ["begun"]


# ---- the same model -----------------------------------------------------------------------------


class Others:
    """A stand-in for a group in which another member has a different model."""

    def __init__(self, size: int = 2, rank: int = 1) -> None:
        self._size, self._rank = size, rank
        self.sent: list[tuple[list[float], int, bool]] = []

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return self._rank

    def broadcast(self, tensors: Any, options: Any) -> dist.Work:
        (joined,) = tensors
        self.sent.append((joined.tolist(), options.rootRank, options.asyncOp))
        joined.add_(100)
        work = dist.Work([joined])
        work._finish()
        return work


W, B = fd.zeros(2, 3), fd.zeros(3)
ROW, LAST = ("w", (2, 3), (3, 1), "float32", False), ("b", (3,), (1,), "float32", False)
COUNTS = "params, while rank 0 has inconsistent 2 params; one rank alone has"
SIZES = "in this process with sizes [2, 3] appears not to match"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [ROW, LAST, ("extra", (1,), (1,), "float32", True)],
            f"Rank 1 has 3 {COUNTS} 'extra'",
        ),
        ([LAST], f"Rank 1 has 1 {COUNTS} 'w'"),
        (
            [ROW, ("b", (4,), (1,), "float32", False)],
            ("[1]: params[1] (b) in this process with sizes [4] appears not to match sizes of the "
            "same param in process 0. The shape is (4,) on rank 1 and (3,) on rank 0"),
        ),
        (
            [("w", (2, 3), (1, 2), "float32", False), LAST],
            (f"[1]: params[0] (w) {SIZES} strides of the same param in process 0. The strides is "
            "(1, 2) on rank 1 and (3, 1) on rank 0"),
        ),
        (
            [("w", (2, 3), (3, 1), "float64", False), LAST],
            f"{SIZES} dtype of the same param in process 0. The dtype is float64 on rank 1",
        ),
        (
            [("w", (2, 3), (3, 1), "float32", True), LAST],
            f"{SIZES} requires_grad of the same param in process 0. The requires_grad is True on",
        ),
    ],
)  # fmt: skip
def test_how_models_differ_is_said(
    monkeypatch: pytest.MonkeyPatch, rows: list[Any], words: str
) -> None:
    def gather(found: list[Any], own: Any, group: Any) -> None:
        assert own == [ROW, LAST]
        found[:] = [own, rows]

    monkeypatch.setattr(same_model, "all_gather_object", gather)
    named = [("w", W), ("b", B)]
    with pytest.raises(RuntimeError) as raised:
        same_model.require_same_model(Others(), named)  # type: ignore[arg-type]
    assert words in str(raised.value)
    with pytest.raises(RuntimeError, match="buffers"):
        same_model.require_same_model(Others(), named, "buffers")  # type: ignore[arg-type]
    # Names may differ, since only the reduced tensors are compared.
    monkeypatch.setattr(same_model, "all_gather_object", lambda found, own, group: (
        found.__setitem__(slice(None), [own, [("v", *row[1:]) for row in own]])
    ))  # fmt: skip
    same_model.require_same_model(Others(), named)  # type: ignore[arg-type]


def test_one_member_compares_and_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_model, "all_gather_object", None)
    group: Any = Others(size=1)
    same_model.require_same_model(group, [("w", W)])
    same_model.broadcast_tensors(group, [fd.ones(1)])
    assert group.sent == []


@pytest.mark.parametrize("rank", [0, 1])
def test_tensors_of_one_dtype_travel_together_up_to_a_size(rank: int) -> None:
    tensors = [fd.ones(2, 1), fd.ones(1).double(), fd.ones(2), fd.ones(1), fd.ones(9)]
    group: Any = Others(rank=rank)
    same_model.broadcast_tensors(group, tensors, together_bytes=16)
    expected = [[1.0] * 4, [1.0], [1.0] * 9, [1.0]]
    assert group.sent == [(values, 0, False) for values in expected]
    assert [one.tolist() for one in tensors[:2]] == (
        [[[101.0], [101.0]], [101.0]] if rank else [[[1.0], [1.0]], [1.0]]
    )
    group.sent.clear()
    same_model.broadcast_tensors(group, tensors[:1], root=rank)
    assert [(root, waits) for _, root, waits in group.sent] == [(rank, False)]
    assert tensors[0].flatten().tolist() == ([101.0] * 2 if rank else [1.0] * 2)


# ---- the reducer --------------------------------------------------------------------------------


def test_buckets_are_rebuilt_once_in_the_order_of_rank_0_and_by_the_limit() -> None:
    def member(rank: int) -> list[Any]:
        model = DDP(TwoHeads(), bucket_cap_mb=20 / (1 << 20))
        found = [[bucket.indices for bucket in model.reducer.buckets]]
        for uses in ("ab", "ba", "ab"):
            first, second = model(fd.ones(1, 2), uses if rank == 0 else "ab")
            found.append([bucket.indices for bucket in model.reducer.buckets])
            (first.sum() * second.sum()).backward()
        return found

    first, second = run_members(2, member)
    assert first == second
    assert first[0] == first[1] == [[3, 2], [1, 0]] and first[2] == first[3]
    assert sorted(index for one in first[2] for index in one) == [0, 1, 2, 3]
    assert [len(one) for one in first[2]] == [2, 2]


def test_means_in_a_context_are_copies_of_the_buckets() -> None:
    def member(rank: int) -> list[Any]:
        reducer = DDP(TwoHeads()).reducer
        (bucket,) = reducer.buckets
        bucket.flat.copy_(fd.arange(12.0))
        given: list[Any] = []
        held = {index: fd.ones_like(reducer.parameters[index]) for index in (1, 3)}
        leaves = {reducer._leaves[leaf]: leaf for leaf in reducer._leaves}

        class Context:
            def gradient_of(self, leaf: Any) -> Any:
                return held.get(reducer._leaves[leaf])

            def accumulate_grad(self, leaf: Any, grad: Any, mine: bool) -> None:
                given.append((reducer._leaves[leaf], grad.tolist(), mine))

        reducer._context = Context()
        reducer._place(bucket, np.array([1, 1, 1, 0]))
        assert [one.grad for one in reducer.parameters] == [None] * 4 and len(leaves) == 4
        values = {index: view.tolist() for index, view in zip(bucket.indices, bucket.views)}
        assert sorted(given) == [(0, values[0], False), (2, values[2], False)]
        assert held[1].tolist() == values[1] and held[3].tolist() == [1.0, 1.0]
        return []

    run_members(1, member)


# ---- the module ---------------------------------------------------------------------------------


def test_facts_of_a_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)

    def member(rank: int) -> dict[str, Any]:
        model = DDP(TwoHeads(), find_unused_parameters=True, broadcast_buffers=False)
        before = model._get_ddp_logging_data()
        for _ in range(2):
            sum(one.sum() for one in model(fd.ones(1, 2), "a")).backward()
        after = model._get_ddp_logging_data()
        assert after["iteration"] == 1 and not after["has_rebuilt_buckets"]
        assert (before["master_addr"], before["gloo_socket_ifname"]) == ("10.0.0.1", "N/A")
        for name in ("master_addr", "master_port", "gloo_socket_ifname", "gloo_device_transport"):
            del before[name]
        del before["torch_distributed_debug"], before["cuda_visible_devices"]
        assert "rebuilt_bucket_sizes" not in after and after["avg_forward_compute_time"] > 0
        return before

    assert run_members(2, member) == [
        {
            "world_size": 2, "rank": rank, "module_name": "TwoHeads", "dtypes": "float",
            "backend_name": "threads", "device_ids": "", "output_device": -1,
            "broadcast_buffers": 0, "bucket_cap_bytes": 25 << 20, "bucket_sizes": "48",
            "find_unused_parameters": 1, "gradient_as_bucket_view": 0, "static_graph": 0,
            "iteration": 0, "num_buckets": 1,
            "num_parameter_tensors": 4, "total_parameter_size_bytes": 48,
            "has_rebuilt_buckets": 0, "has_error": 0, "error": "",
        }
        for rank in range(2)
    ]  # fmt: skip


REFUSED: list[tuple[type[Exception], str, Callable[[], Any]]] = [
    (NotImplementedError, "delay_all_reduce_named_params is not supported; leave it out",
        lambda: DDP(TwoHeads(), delay_all_reduce_named_params=[])),
    (NotImplementedError, "param_to_hook_all_reduce is not", lambda: DDP(
        TwoHeads(), param_to_hook_all_reduce=3)),
    (NotImplementedError, "mixed_precision is not", lambda: DDP(TwoHeads(), mixed_precision=3)),
    (NotImplementedError, "bucket_cap_mb_list is not", lambda: DDP(
        TwoHeads(), bucket_cap_mb_list=[1])),
    (RuntimeError, "Cannot specify both process_group and device_mesh", lambda: DDP(
        TwoHeads(), process_group=dist.group.WORLD, device_mesh=3)),
    (RuntimeError, "Only 1D device mesh is supported", lambda: DDP(
        TwoHeads(), device_mesh=SimpleNamespace(ndim=2))),
    (ValueError, "this process is not in that group", lambda: DDP(
        TwoHeads(), process_group=dist.GroupMember.NON_GROUP_MEMBER)),
    (RuntimeError, "have any parameter that requires a gradient", lambda: DDP(nn.ReLU())),
    (RuntimeError, "Run a dummy forward pass", lambda: DDP(nn.LazyLinear(2))),
    (ValueError, "contain a single element", lambda: DDP(TwoHeads(), device_ids=[0, 1])),
    (ValueError, "only work with single-device", lambda: DDP(TwoHeads(), device_ids=["cpu"])),
    (ValueError, "only work with single-device", lambda: DDP(TwoHeads(), output_device="cpu")),
]  # fmt: skip


def test_what_the_wrapper_does_not_take() -> None:
    def member(rank: int) -> None:
        for kind, words, call in REFUSED:
            with pytest.raises(kind, match=words):
                call()

    run_members(1, member)


def test_a_state_of_old_without_switches_has_them_on() -> None:
    def member(rank: int) -> None:
        model = DDP(TwoHeads())
        state = model.__getstate__()
        names = ("require_backward_grad_sync", "require_forward_param_sync")
        for keeps in (True, False):
            for name in names:
                state[name] = False
                if not keeps:
                    del state[name]
            other = object.__new__(DDP)
            other.__setstate__(dict(state))
            assert [getattr(other, name) for name in names] == [not keeps] * 2
            assert other.process_group is dist.group.WORLD and other.device_mesh is None

    run_members(1, member)


def test_defaults_of_the_wrapper() -> None:
    parameters = inspect.signature(DDP.__init__).parameters
    defaults = {
        name: one.default
        for name, one in parameters.items()
        if one.default is not inspect.Parameter.empty and one.default is not None
    }
    assert defaults.pop("dim") == 0 and defaults.pop("init_sync") is True
    assert set(defaults.values()) == {False}
    assert {"find_unused_parameters", "gradient_as_bucket_view", "static_graph"} < defaults.keys()
    join = inspect.signature(DDP.join).parameters
    assert {name: one.default for name, one in join.items() if name != "self"} == {
        "divide_by_initial_world_size": True,
        "enable": True,
        "throw_on_early_termination": False,
    }
