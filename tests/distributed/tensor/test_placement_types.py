"""Placements of distributed tensors."""

from __future__ import annotations

import pytest

from fastdist.distributed.tensor import Partial, Placement, Replicate, Shard


def test_placements_say_what_they_are() -> None:
    shard, replicate, partial = Shard(1), Replicate(), Partial("avg")
    assert [one.is_shard() for one in (shard, replicate, partial)] == [True, False, False]
    assert [one.is_replicate() for one in (shard, replicate, partial)] == [False, True, False]
    assert [one.is_partial() for one in (shard, replicate, partial)] == [False, False, True]
    assert shard.is_shard(1) and not shard.is_shard(0)
    assert partial.is_partial("avg") and not partial.is_partial("sum")
    assert not Placement().is_shard()


def test_placements_compare_and_print_as_pytorch_does() -> None:
    assert Shard(1) == Shard(dim=1) != Shard(0) and Partial() == Partial("sum")
    assert len({Shard(1), Shard(1), Replicate(), Replicate(), Partial()}) == 3
    assert list(map(repr, (Shard(1), Replicate(), Partial()))) == [
        "Shard(dim=1)", "Replicate()", "Partial(sum)",
    ]  # fmt: skip
    assert list(map(str, (Shard(1), Replicate(), Partial("avg")))) == ["S(1)", "R", "P(avg)"]
    with pytest.raises(AttributeError):
        Shard(1).dim = 2  # type: ignore[misc]
