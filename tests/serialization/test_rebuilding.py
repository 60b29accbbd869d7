"""A file cannot set the slots of a tensor, or other attributes that a class defines."""

from __future__ import annotations

import io
import pickle
import random
import struct
from collections import OrderedDict
from functools import cached_property
from typing import Any

import pytest

import fastdist
from fastdist import nn
from fastdist.serialization import safe_globals

from . import forging
from .forging import Added, archive_of, named, number, parameter, table, tensor, text

ADDRESS = b"G" + bytes(8)
_REFUSED = "a file may not set|nothing can be put into"


def load(pickled: bytes, **options: Any) -> Any:
    return fastdist.load(archive_of(b"\x80\x02" + pickled + b".", r0=bytes(16)), **options)


REBUILT = (
    parameter,
    lambda state: parameter(forging.joined(b"N", state)),
    lambda state: parameter(forging.joined(state, b"N")),
    forging.of_type,
)
BUILT = (
    lambda state: parameter(b"N") + state + b"b",
    lambda state: forging.SAFE + forging.joined(tensor()) + b"R" + state + b"b",
    lambda state: forging.SAFE + b")\x81" + forging.joined(b"N", state) + b"b",
)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", ["_array", "_layout", "_edge", "_extra", "_storage", "__class__"])
@pytest.mark.parametrize(
    ("forged", "weights_only"),
    [*[(one, True) for one in REBUILT + BUILT], *[(one, False) for one in REBUILT]],
)
def test_a_file_never_sets_what_a_class_defines(name: str, forged: Any, weights_only: bool) -> None:
    pickled = forged(table(**{name: ADDRESS}))
    with safe_globals([Added]), pytest.raises((pickle.UnpicklingError, TypeError), match=_REFUSED):
        load(pickled, weights_only=weights_only)


def test_a_method_is_not_shadowed_by_an_attribute_of_a_file() -> None:
    with pytest.raises(pickle.UnpicklingError, match="a file may not set 'sum' of a Parameter"):
        load(parameter(table(sum=b"N")))
    with pytest.raises(pickle.UnpicklingError, match="a file may not set 'items' of a OrderedDict"):
        load(forging.ORDERED + table(items=b"N") + b"b")
    assert load(forging.ORDERED + table(_metadata=b"N") + b"b")._metadata is None


def test_what_load_would_refuse_is_refused_by_save() -> None:
    x = nn.Parameter(fastdist.ones(2))
    x.__dict__["sum"] = 5
    with pytest.raises(RuntimeError, match="the attribute 'sum' of a Parameter hides"):
        fastdist.save(x, io.BytesIO())


class Plain:
    """A user class with a class attribute, a slot of its base class, and a cached property."""

    default = 1

    @cached_property
    def once(self) -> int:
        return 3

    def method(self) -> None: ...


class Slotted:
    __slots__ = ("here",)


def back(value: Any, *, weights_only: bool) -> Any:
    stream = io.BytesIO()
    fastdist.save(value, stream)
    stream.seek(0)
    with safe_globals([Plain, Slotted, Added]):
        return fastdist.load(stream, weights_only=weights_only)


@pytest.mark.parametrize("weights_only", [True, False])
def test_classes_that_were_added_keep_their_attributes(weights_only: bool) -> None:
    plain, slotted = Plain(), Slotted()
    plain.default, plain.more, slotted.here = 2, plain.once, 4  # type: ignore[attr-defined]
    found, other = back([plain, slotted], weights_only=weights_only)
    assert vars(found) == {"default": 2, "more": 3, "once": 3} and other.here == 4
    mine = fastdist.ones(2).as_subclass(Added)
    mine.default, mine.note = 7, "kept"
    twin = back(mine, weights_only=weights_only)
    assert type(twin) is Added and (twin.default, twin.note) == (7, "kept")
    assert twin.tolist() == [1.0, 1.0]


class Counted(fastdist.Tensor):
    """A subclass of Tensor with its own __setstate__."""

    def __setstate__(self, state: Any) -> None:
        self.count = state["count"] + 1


def test_a_class_of_tensors_may_take_its_state_itself() -> None:
    made = named(__name__, "Counted") + b")\x81" + table(count=number(2)) + b"b"
    with safe_globals([Counted]):
        assert load(made).count == 3


def test_a_method_of_an_added_class_is_not_shadowed() -> None:
    made = named(__name__, "Plain") + b")\x81" + table(method=b"N") + b"b"
    with safe_globals([Plain]), pytest.raises(pickle.UnpicklingError, match="'method' of a Plain"):
        load(made)


def sparse_over_shared_memory() -> io.BytesIO:
    # A dense tensor shares one storage with the indices of the sparse tensor.
    layout = named("torch.serialization", "_get_layout") + text("torch.sparse_coo") + b"\x85R"
    parts = forging.joined(
        tensor("Long", (1, 4)), tensor("Float", (4,), key="1"), forging.joined(number(8)), b"\x89"
    )
    sparse = named("torch._utils", "_rebuild_sparse_tensor") + forging.joined(layout, parts) + b"R"
    pickled = b"\x80\x02" + forging.joined(tensor("Long", (4,)), sparse) + b"."
    return archive_of(pickled, r0=struct.pack("<4q", 0, 2, 4, 6), r1=struct.pack("<4f", *range(4)))


def test_coordinates_of_a_sparse_tensor_are_its_own() -> None:
    dense, sparse = fastdist.load(sparse_over_shared_memory())
    dense.fill_(1 << 40)
    assert sparse.to_dense().tolist() == [0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 3.0, 0.0]


def test_coordinates_that_many_tensors_share_are_not_copied_without_end() -> None:
    # The 100,000 indices all refer to one element of the file, and many tensors share them.
    layout = named("torch.serialization", "_get_layout") + text("torch.sparse_coo") + b"\x85Rq\x00"
    indices = tensor("Long", (1, 100_000), numel=1, strides=(0, 0)) + b"q\x01"
    values = tensor("Float", (100_000,), numel=1, strides=(0,), key="1") + b"q\x02"
    parts = forging.joined(indices, values, forging.joined(number(8)), b"\x89") + b"q\x03"
    call = named("torch._utils", "_rebuild_sparse_tensor") + b"q\x04"
    pickled = b"\x80\x02(" + layout + parts + call + b"(" + b"h\x04(h\x00h\x03tR" * 1000 + b"l."
    stream = archive_of(pickled.replace(b"l.", b"t."), r0=bytes(8), r1=bytes(4))
    with pytest.raises(
        pickle.UnpicklingError, match="far more copies of tensors than it has bytes"
    ):
        fastdist.load(stream)


def test_sizes_of_a_sparse_tensor_are_ints() -> None:
    from fastdist.tensor.pickling import rebuild_sparse

    indices, values = fastdist.tensor([[0, 1]]), fastdist.ones(2)
    with pytest.raises(RuntimeError, match="the sizes must be ints"):
        rebuild_sparse(indices, values, (2.0,), False, False)


def test_a_device_of_a_file_is_one_that_a_machine_may_have() -> None:
    # Device objects are cached forever, so a file with a million devices would fill the memory.
    call = named("torch", "device")
    for given in (text("cuda") + number(1 << 40), text("cuda") + b"\x88", b"N" + number(0)):
        with pytest.raises(pickle.UnpicklingError, match="a device "):
            load(call + b"(" + given + b"tR")
    assert load(call + text("cuda") + number(1) + b"\x86R") == fastdist.device("cuda", 1)


@pytest.mark.parametrize(
    "count", [pytest.param(1500), pytest.param(50_000, marks=pytest.mark.slow)]
)
def test_no_forged_file_changes_a_slot_or_a_class(count: int) -> None:
    numbers = random.Random(count)
    loaded = 0
    with safe_globals([Added]):
        for _ in range(count):
            found = forging.load_forged(numbers)
            loaded += found is not None
            forging.require_sound(found)
            for one in found if isinstance(found, tuple | list) else ():
                forging.require_sound(one)
    # If no forged file loaded, the test would check nothing.
    assert loaded > count // 10


def test_ordered_dicts_of_state_dicts_keep_what_they_carry() -> None:
    state = nn.Sequential(nn.Linear(1, 1)).state_dict()
    found = back(state, weights_only=True)
    assert type(found) is OrderedDict and found._metadata == state._metadata
