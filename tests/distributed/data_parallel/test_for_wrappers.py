"""Functions for third-party wrappers similar to DistributedDataParallel."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist import nn
from fastdist.distributed import utils
from fastdist.distributed.data_parallel.same_model import _batches
from tests.distributed.data_parallel.models import DDP
from tests.distributed.process_group.thread_members import run_members

assign = dist._compute_bucket_assignment_by_size


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        ([100, 50, 100, 50], [400], ([[0], [1, 2], [3]], [400] * 3)),
        ([1, 1, 1], [4, 8], ([[0], [1, 2]], [4, 8])),
        ([1, 1, 1, 1], [4, 4, 100], ([[0], [1], [2, 3]], [4, 4, 100])),
        ([0, 3], [1000], ([[0, 1]], [1000])),
    ],
)
def test_buckets_by_size(sizes: list[int], limits: list[int], expected: Any) -> None:
    assert assign([fd.zeros(size) for size in sizes], limits) == expected


def test_buckets_have_one_dtype_and_sparse_gradients_are_apart() -> None:
    tensors = [fd.zeros(1), fd.zeros(1).double(), fd.zeros(1), fd.zeros(1).double()]
    assert assign(tensors, [8]) == ([[0, 2], [1], [3]], [8, 8, 8])
    assert assign(tensors, [4, 8], [False, True, False, False]) == (
        [[0], [1], [2], [3]],
        [4, 0, 8, 4],
    )
    # With indices, the buckets come in the order in which they became full.
    assert assign(tensors, [8], [], [3, 2, 1, 0]) == ([[2], [3, 1], [0]], [8, 8, 8])
    with pytest.raises(RuntimeError, match="No support for sparse tensors"):
        assign([fd.sparse_coo_tensor([[0]], [1.0], (2,))], [8])
    for tensors, limits, indices in (
        ([], [8], []),
        ([fd.zeros(1)], [], []),
        ([fd.zeros(1)], [8], [1, 2]),
    ):
        with pytest.raises(ValueError, match=r"indices of|at least one"):
            assign(tensors, limits, [], indices)


def test_parameters_are_compared_on_all_members() -> None:
    def member(rank: int) -> Any:
        dist._verify_params_across_processes(dist.group.WORLD, [fd.zeros(2), fd.zeros(3)])
        utils._verify_param_shape_across_processes(None, [fd.zeros(2)])
        with pytest.raises(RuntimeError) as raised:
            dist._verify_params_across_processes(None, [fd.zeros(2), fd.zeros(3 + rank)], None)
        return str(raised.value)

    for text in run_members(2, member):
        assert "number 1" in text and "sizes [4] appears not to match sizes" in text


def test_a_module_gets_the_values_of_one_member() -> None:
    def member(rank: int) -> Any:
        model = nn.BatchNorm1d(2)
        with fd.no_grad():
            for one in (*model.parameters(), model.running_mean):
                one.fill_(float(rank + 1))
        utils._sync_module_states(model, None, 8, 1, {"weight"})
        first = [model.weight.tolist(), model.bias.tolist(), model.running_mean.tolist()]
        model.running_mean.fill_(float(rank))
        utils._sync_module_states(model, None, 1 << 20, 0, [], broadcast_buffers=False)
        tensors = [fd.full((3,), float(rank)), fd.full((2,), rank), fd.full((1,), float(rank))]
        dist._broadcast_coalesced(dist.group.WORLD, tensors, 12, 2)
        utils._sync_params_and_buffers(None, [], 8, 0)
        return (
            first,
            model.weight.tolist(),
            model.running_mean.tolist(),
            [one.tolist() for one in tensors],
        )

    for rank, found in enumerate(run_members(3, member)):
        own = [rank + 1.0] * 2
        assert found[0] == [own, [2.0, 2.0], [2.0, 2.0]]
        assert found[1:3] == ([1.0, 1.0], [float(rank)] * 2)
        assert found[3] == [[2.0] * 3, [2, 2], [2.0]]


def test_messages_hold_as_many_bytes_as_is_said() -> None:
    tensors = [fd.zeros(2), fd.zeros(1), fd.zeros(5), fd.zeros(1)]
    assert [len(one) for one in _batches(tensors, 12)] == [2, 1, 1]
    assert [len(one) for one in _batches(tensors, 36)] == [4]


def test_the_first_bucket_is_as_large_as_programs_say(monkeypatch: pytest.MonkeyPatch) -> None:
    def member(rank: int) -> Any:
        return [len(one.indices) for one in DDP(nn.Linear(300, 300)).reducer.buckets]

    assert run_members(2, member) == [[2], [2]]
    monkeypatch.setattr(dist, "_DEFAULT_FIRST_BUCKET_BYTES", 1000)
    assert run_members(2, member) == [[1, 1], [1, 1]]


class Pair(NamedTuple):
    left: Any
    right: int


def test_tensors_in_arguments_are_moved() -> None:
    x = fd.ones(2)
    given = (x, [Pair(x, 3), {"k": (x,)}], "text", ())
    (found,) = utils._recursive_to(given, "meta", False)
    assert found[0].device.type == "meta" and found[1][0].right == 3 and found[2:] == ("text", ())
    assert type(found[1][0]) is Pair and found[1][0].left.device.type == "meta"
    assert found[1][1]["k"][0].device.type == "meta"
    inputs, named = utils._to_kwargs((x, 1), {"k": x}, fd.device("cpu"), True)
    assert inputs == ((x, 1),) and named == ({"k": x},) and inputs[0][0] is x
    assert utils._to_kwargs((x,), None, "cpu", False) == (((x,),), ({},))
    packed = nn.utils.rnn.pack_sequence([x])
    assert utils._recursive_to(packed, "cpu", False)[0] is packed
    with pytest.raises(NotImplementedError, match="_alloc_storage"):
        utils._alloc_storage(x, (3,))
