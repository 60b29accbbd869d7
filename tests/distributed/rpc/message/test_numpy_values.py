"""NumPy values arrive unchanged, in strict mode too, and malicious ones are rejected."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist import Tensor
from fastdist.core.errors import ForbiddenFunctionError, MessageError
from fastdist.distributed.rpc.message import gate
from fastdist.distributed.rpc.message.body import deserialize, serialize
from fastdist.distributed.rpc.message.numpy_values import (
    rebuild_array,
    rebuild_dtype,
    rebuild_scalar,
)
from tests.properties import in_one_test

CODES = [*"?bhilqBHILQefdgFDG", ">f8", "<U3", "S5", "M8[ns]", "m8[D]", "M8[25s]"]


@pytest.fixture(params=[gate.OPEN, gate.STRICT])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    gate.set_mode(request.param)
    yield request.param
    gate.set_mode(gate.OPEN)


@pytest.fixture
def strict() -> Iterator[None]:
    gate.set_mode(gate.STRICT)
    yield
    gate.set_mode(gate.OPEN)


def round_trip(value: object) -> Any:
    return deserialize(*serialize(value, []), [])


def some(code: str, shape: tuple[int, ...] = (2, 3)) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape))
    return np.arange(count).astype("i8").reshape(shape).astype(code)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("code", CODES)
@in_one_test("shape", [(), (0,), (4,), (2, 3), (3, 0, 2)])
def test_arrays_of_every_dtype_and_shape_come_back(
    mode: str, code: str, shape: tuple[int, ...]
) -> None:
    array = some(code, shape)
    came = round_trip(array)
    assert type(came) is np.ndarray and came.dtype == array.dtype and came.shape == shape
    assert came.tobytes() == array.tobytes()
    assert came.flags.writeable


def test_layout_and_sharing_are_what_numpy_keeps(mode: str) -> None:
    array = some("f8", (4, 6))
    for view in (array.T, array[::2, 1:], array[::-1]):
        came = round_trip(view)
        np.testing.assert_array_equal(came, view)
        assert came.flags.f_contiguous == pickle.loads(pickle.dumps(view, 5)).flags.f_contiguous
    first, second = round_trip((array, array))
    assert first is second
    array.flags.writeable = False
    assert not round_trip(array).flags.writeable


@pytest.mark.one_in(5)
@pytest.mark.parametrize("code", CODES)
def test_scalars_and_dtypes_come_back(mode: str, code: str) -> None:
    scalar = some(code)[1, 1]
    came, dtype = round_trip((scalar, np.dtype(code)))
    assert came.dtype == scalar.dtype and type(came).__mro__[1:] == type(scalar).__mro__[1:]
    assert came == scalar
    assert dtype == np.dtype(code)


RECORDS = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
OBJECTS = np.array([None, {"x": 1}], dtype=object)


@pytest.mark.parametrize("value", [RECORDS, RECORDS[0], RECORDS.dtype, OBJECTS], ids=repr)
def test_what_has_no_code_goes_numpys_way_in_open_mode_alone(value: Any, strict: None) -> None:
    body = serialize(value, [])
    with pytest.raises(ForbiddenFunctionError, match="strict mode"):
        deserialize(*body, [])
    gate.set_mode(gate.OPEN)
    came = deserialize(*body, [])
    assert repr(came) == repr(value)


def test_numpys_own_form_is_not_read_in_strict_mode(strict: None) -> None:
    # NumPy's format can pass off bytes as pointers: see Note [NumPy's own pickles].
    for value in (np.arange(3.0), np.float64(1.5), np.dtype("f8")):
        with pytest.raises(ForbiddenFunctionError):
            deserialize(pickle.dumps(value, 5), 1, [])


@pytest.mark.parametrize(
    "code", ["O", "|O", "f8,O", "|V8", "(1000000000,)f8", "<f8,<f8", "<U0", "<z9", "<M8[", 5, None]
)
def test_only_codes_of_plain_dtypes_are_rebuilt(code: Any) -> None:
    with pytest.raises(MessageError, match="is not the code of a dtype"):
        rebuild_dtype(code)


@pytest.mark.parametrize(
    ("shape", "order", "data"),
    [
        ((2,), "C", bytes(15)),
        ((2**62,), "C", bytes(16)),
        ((2**32, 2**32), "C", b""),
        ((2**64, 0), "C", b""),
        ((-2, -1), "C", bytes(16)),
        ((True, 2), "C", bytes(16)),
        ((2.0,), "C", bytes(16)),
        ([2], "C", bytes(16)),
        ((1,) * 33 + (2,), "C", bytes(16)),
        ((2,), "K", bytes(16)),
        ((2,), "C", "x" * 16),
    ],
)
def test_an_array_that_does_not_fit_its_bytes_is_refused(shape: Any, order: str, data: Any) -> None:
    with pytest.raises(MessageError, match="that do not fit"):
        rebuild_array("<f8", shape, order, data)


def test_a_scalar_that_does_not_fit_its_bytes_is_refused() -> None:
    with pytest.raises(MessageError):
        rebuild_scalar("<f8", bytes(9))


class Named(Tensor):
    """A subclass of Tensor, which RPC sends as an ordinary pickle."""


@pytest.mark.usefixtures("mode")
def test_arrays_of_shared_memory_are_sent_as_any_other() -> None:
    alone, shared = Named([1.0, 2.0]), Named([1.0, 2.0]).share_memory_()
    array = shared.__reduce_ex__(5)[1][1]
    found = round_trip([array, np.array([1.0, 2.0], np.float32)])
    assert all(type(one) is np.ndarray and one.tolist() == [1.0, 2.0] for one in found)
    assert b"_reconstruct" not in serialize(shared, [])[0]
    assert len(serialize(shared, [])[0]) == len(serialize(alone, [])[0])
