"""Storages: the whole memory of a tensor's base, as bytes or as elements."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import fastdist
from fastdist import FloatStorage, LongStorage, TypedStorage, UntypedStorage


def test_a_view_shows_the_whole_memory_and_its_own_place_in_it() -> None:
    x = fastdist.arange(6.0).reshape(2, 3)
    row = x[1]
    assert row.untyped_storage() == x.untyped_storage()
    assert row.untyped_storage().nbytes() == 24 and row.storage_offset() == 3
    assert row.storage().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert row.untyped_storage().data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    "see",
    [
        lambda x: x.t(),
        lambda x: x[:, ::2],
        lambda x: x.detach()[1:],
        lambda x: x[1:].detach(),
        lambda x: x[1:].data,
        lambda x: x.expand(4, 2, 3),
        lambda x: fastdist.nn.Parameter(x[1:]),
        lambda x: x.view(fastdist.int32)[1],
        lambda x: x[0, :0],
    ],
)
def test_every_kind_of_view_has_the_same_storage(see) -> None:  # type: ignore[no-untyped-def]
    x = fastdist.arange(6.0).reshape(2, 3)
    assert see(x).untyped_storage() == x.untyped_storage()


def test_memory_in_another_order_is_shown_as_it_lies() -> None:
    turned = fastdist.arange(6.0).reshape(2, 3).t().clone()
    assert turned.stride() == (1, 3)
    assert turned.storage().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_row_of_a_users_array_is_a_memory_of_its_own() -> None:
    array = np.arange(6.0).reshape(2, 3)
    row = fastdist.from_numpy(array[1])
    assert row.storage_offset() == 0 and row.untyped_storage().nbytes() == 24
    assert row[1:].storage_offset() == 1 and row.detach().untyped_storage().nbytes() == 24


def test_shared_memory_stays_the_storage_of_its_views() -> None:
    x = fastdist.arange(4.0)
    y = x[2:]
    x.share_memory_()
    assert y.untyped_storage() == x.untyped_storage() and y.storage_offset() == 2
    row = fastdist.from_numpy(np.ones((2, 3)))[1]
    row.share_memory_()
    assert row.storage_offset() == 3


def test_elements_and_bytes_are_read_and_written() -> None:
    x = fastdist.tensor([1.0, 2.0])
    x.storage()[0] = 5.0
    x.untyped_storage()[4:8] = 0
    assert x.tolist() == [5.0, 0.0] and x.storage()[-2] == 5.0
    assert list(x.untyped_storage()[:2]) == x.untyped_storage().tolist()[:2]
    with pytest.raises(IndexError, match="index 2 out of range for storage of size 2"):
        x.storage()[2]
    with pytest.raises(IndexError, match="index 8 out of range for storage of size 8"):
        x.untyped_storage()[8]


def test_storages_of_their_own_are_made_filled_copied_and_resized() -> None:
    storage = UntypedStorage(3).fill_(7)
    storage.resize_(5)
    assert storage.tolist() == [7, 7, 7, 0, 0] and len(storage) == 5
    assert UntypedStorage([1, 2]).copy_(UntypedStorage([3, 4])).tolist() == [3, 4]
    with pytest.raises(RuntimeError, match="size does not match, self was 5 bytes but src was 2"):
        storage.copy_(UntypedStorage(2))
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        fastdist.ones(2).untyped_storage().resize_(100)


def test_typed_storages_have_the_class_of_their_dtype() -> None:
    made = FloatStorage([1, 2])
    assert type(made) is TypedStorage and made.dtype is fastdist.float32 and made.size() == 2
    assert isinstance(made, FloatStorage) and not isinstance(made, LongStorage)
    assert isinstance(made, TypedStorage) and not isinstance(1, TypedStorage)
    assert made.pickle_storage_type() == "FloatStorage" and fastdist.is_storage(made)
    assert repr(made).endswith("TypedStorage(dtype=fastdist.float32, device=cpu) of size 2]")


def test_storages_travel_and_are_copied() -> None:
    storage = fastdist.tensor([1, 2]).storage()
    for twin in (pickle.loads(pickle.dumps(storage)), storage.clone(), copy.deepcopy(storage)):
        assert twin.tolist() == [1, 2] and twin.data_ptr() != storage.data_ptr()


def test_storages_move_between_devices() -> None:
    x = fastdist.arange(4.0, device="sim")
    storage = x.untyped_storage()
    assert storage.device.type == "sim" and storage.nbytes() == 16
    assert storage.cpu().numpy().view(np.float32).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert x[2:].untyped_storage() == storage
    with pytest.raises(NotImplementedError, match=r"use \.cpu\(\) first"):
        storage[0]
