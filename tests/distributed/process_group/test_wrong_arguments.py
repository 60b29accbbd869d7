"""Invalid arguments of collectives are rejected on the member that passes them, before it sends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.core.errors import CollectiveArgumentError
from tests.distributed.process_group.recorder import asked_of, recorded_group
from tests.distributed.process_group.thread_members import run_members


@pytest.mark.parametrize(
    ("tag", "kind", "words"),
    [
        (-1, CollectiveArgumentError, "Tag must be nonnegative, got -1"),
        (1 << 63, CollectiveArgumentError, "is larger than 9223372036854775807"),
        ("a", TypeError, "tag is 'a'; expected an integer"),
        (1.0, TypeError, "tag is 1.0; expected"),
        (None, TypeError, "tag is None; expected"),
    ],
)
def test_a_wrong_tag_is_refused_by_the_sender_and_the_receiver(
    tag: Any, kind: type[Exception], words: str
) -> None:
    group = recorded_group()
    for call in (group.send, group.recv):
        with pytest.raises(kind, match=f"^{call.__name__}: .*{words}"):
            call([fd.ones(1)], 0, tag)
    assert group._carriers["gloo"].asked == []
    group.send([fd.ones(1)], 0, np.int64(5)).wait()
    (tag,) = asked_of(group).arguments[2:]
    assert tag == 5 and type(tag) is int
    group.recv([fd.ones(1)], 0, (1 << 63) - 1).wait()
    group.shutdown()


@pytest.mark.parametrize("change", ["conj", "neg"])
def test_a_view_whose_numbers_are_not_in_memory_is_read_and_not_written(change: str) -> None:
    x = fd.ones(2) + 1j * fd.ones(2)
    view: Any = x.conj() if change == "conj" else x.conj().imag
    group = recorded_group()
    for call in (group.allreduce, group.broadcast, lambda one: group.recv(one, 0)):
        with pytest.raises(CollectiveArgumentError, match=r"(conjug|neg)ated view .*resolve_conj"):
            call([view])
    assert group._carriers["gloo"].asked == []
    group._allgather_base(fd.zeros(6, dtype=view.dtype), view).wait()
    assert asked_of(group).arguments[1] == view.tolist()
    group.shutdown()


def test_ranks_of_a_new_group_are_integers() -> None:
    def member(rank: int) -> Any:
        for ranks in (["0"], [0.0, 1.0], [None]):
            with pytest.raises(TypeError, match=r"new_group: ranks has .*; expected integers"):
                dist.new_group(ranks)  # type: ignore[arg-type]
        found = dist.new_group([np.int64(1), fd.tensor(0)])  # type: ignore[list-item]
        return dist.get_process_group_ranks(found)

    assert run_members(2, member) == [[0, 1]] * 2


def test_the_error_of_a_sparse_tensor_names_it() -> None:
    group, sparse = recorded_group(), fd.sparse_coo_tensor([[0]], [1.0], (2,))
    with pytest.raises(
        TypeError, match=r"^broadcast: No support for sparse tensors\. `tensors\[0\]` is"
    ):
        group.broadcast([sparse])
    group.shutdown()
