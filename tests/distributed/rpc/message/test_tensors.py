"""Values and tensors arrive unchanged, share memory as before, and pass the gate."""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fastdist
import fastdist.graph.tensor_methods
from fastdist.core import dtypes
from fastdist.core.device import Device
from fastdist.core.errors import DeviceError, ForbiddenFunctionError, MessageError, RpcError
from fastdist.distributed.rpc.message import gate
from fastdist.distributed.rpc.message.body import deserialize, serialize, serialize_call
from fastdist.distributed.rpc.message.layout import (
    INLINE_BYTES,
    PARAMETER,
    REQUIRES_GRAD,
    TensorEntry,
)
from fastdist.distributed.rpc.message.limits import Limits
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.tensors import (
    destination,
    pack_tensors,
    unpack_tensors,
)
from fastdist.tensor.parameter import Parameter
from fastdist.tensor.tensor import Tensor, from_array, wrap
from tests.dense_layouts import DENSE, GAPS


def round_trip(value: object) -> Any:
    tensors: list[Tensor] = []
    body, encoding = serialize(value, tensors)
    sent = Message(1, body=body, encoding=encoding, tensors=tensors)
    came = decode([bytes(frame) for frame in sent.encode()])
    came.open()
    came.make_leaves()
    return came.value()


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Undo exports and permissions after each test.
    monkeypatch.setattr(gate, "_exported", set(gate._exported))
    monkeypatch.setattr(gate, "_allowed", set(gate._allowed))
    gate.set_mode(gate.STRICT)
    yield
    gate.set_mode(gate.OPEN)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", DENSE)
def test_dense_layouts_come_with_their_strides(name: str) -> None:
    sent = DENSE[name](fastdist.arange(120.0))
    came, again, (other,) = round_trip((sent, sent, [fastdist.nn.Parameter(sent)]))
    assert came is again and came._layout is sent._layout and came.tolist() == sent.tolist()
    assert other.stride() == sent.stride() and other.tolist() == sent.tolist()
    assert round_trip(sent)._layout is sent._layout


def test_coordinates_of_a_sparse_tensor_share_no_memory_with_another() -> None:
    indices = fastdist.tensor([[0, 2]])
    sparse = fastdist.sparse_coo_tensor(indices, fastdist.ones(2), (3,))
    indices._array = sparse._array.indices  # a sender may declare such sharing
    came, other = round_trip((indices, sparse))
    came.fill_(1 << 40)
    assert other.to_dense().tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("name", GAPS)
def test_layouts_with_gaps_come_packed_in_the_order_of_their_axes(name: str) -> None:
    sent = GAPS[name](fastdist.arange(120.0))
    came = round_trip(sent)
    assert came.stride() == sent.clone().stride() and came.tolist() == sent.tolist()


def test_tangents_come_with_their_strides() -> None:
    # Tangents are tensors of the message, like the tensors that they belong to.
    entries, buffers = pack_tensors([fastdist.ones(3), DENSE["permuted"](fastdist.arange(120.0))])
    _, tangent = unpack_tensors(entries, [bytearray(one) for one in buffers])[0]
    assert tangent.stride() == (1, 30, 6)


def test_plain_values_come_back() -> None:
    value = (None, 1, 2.5, "x", [b"y", {"z": {1, 2}}], slice(1, 2), len)
    assert round_trip(value) == value
    assert round_trip(None) is None


# Older versions of ml_dtypes do not have complex32.
THERE = [
    dtype
    for dtype in dtypes.ALL
    if not isinstance(dtype, dtypes.BorrowedDType) or hasattr(ml_dtypes, dtype.name)
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", THERE, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (1, 0, 4)])
def test_tensors_of_every_dtype_and_shape_come_back(
    dtype: dtypes.DType, shape: tuple[int, ...]
) -> None:
    array = (np.arange(int(np.prod(shape))) % 2).reshape(shape).astype(dtype.numpy)
    came = round_trip({"t": from_array(array)})["t"]
    assert came.dtype is dtype
    assert came._array.shape == shape
    assert came._array.tobytes() == array.tobytes()  # float8_e8m0fnu stores NaN, since it has no 0
    assert came._array.flags.writeable


@pytest.mark.parametrize("size", [10, 100_000])
def test_views_that_overlap_share_memory_on_the_other_side(size: int) -> None:
    base = np.arange(float(size))
    tensors = [from_array(base), from_array(base[2:5]), from_array(base[::2]), from_array(base)]
    came = round_trip(tensors)
    for sent, got in zip(tensors, came, strict=True):
        np.testing.assert_array_equal(got._array, sent._array)
        assert got._layout is sent._layout
    came[0]._array[2] = -1.0
    assert came[1]._array[0] == -1.0 and came[2]._array[1] == -1.0 and came[3]._array[2] == -1.0


@pytest.mark.parametrize("array", [np.ones((2, 3)), np.arange(12.0).reshape(3, 4)[:, 1:]])
def test_two_tensors_of_one_array_are_one_buffer(array: np.ndarray[Any, Any]) -> None:
    tensors = [from_array(array), from_array(array)]
    entries, buffers = pack_tensors(tensors)
    assert [entry.buffer for entry in entries] == [0, 0] and len(buffers) == 1
    came = round_trip(tensors)
    assert all(np.array_equal(one._array, array) for one in came)
    came[0]._array[0, 0] = -1.0
    assert came[1]._array[0, 0] == -1.0


def test_views_that_do_not_overlap_do_not_drag_their_base_along() -> None:
    base = np.zeros(1_000_000)
    entries, buffers = pack_tensors([from_array(base[:2]), from_array(base[-2:])])
    assert sum(len(buffer) for buffer in buffers) == 32
    assert [entry.buffer for entry in entries] == [0, 1]


def test_strided_tensors_come_back() -> None:
    base = np.arange(12.0).reshape(3, 4)
    for view in (base.T, base[::2, 1:], base[::-1], np.broadcast_to(base[0], (5, 4))):
        np.testing.assert_array_equal(round_trip(from_array(view))._array, view)
    columns = round_trip([from_array(base.T), from_array(base[:, 1])])
    np.testing.assert_array_equal(columns[0]._array, base.T)
    np.testing.assert_array_equal(columns[1]._array, base[:, 1])


def test_the_same_tensor_twice_is_one_tensor() -> None:
    tensor = from_array(np.ones(3))
    first, second = round_trip((tensor, tensor))
    assert first is second


def test_requires_grad_and_parameter_travel() -> None:
    leaf = from_array(np.ones(3))
    leaf.requires_grad_(True)
    plain, parameter = from_array(np.ones(3)), Parameter(from_array(np.ones(2)))
    came = round_trip([leaf, plain, parameter])
    assert [tensor.requires_grad for tensor in came] == [True, False, True]
    assert [type(tensor) for tensor in came] == [Tensor, Tensor, Parameter]


@pytest.mark.seed("T35")
def test_a_tensor_on_an_unmapped_device_is_refused() -> None:
    tensor = wrap(np.ones(3), from_array(np.ones(3))._layout)
    layout = tensor._layout
    tensor._layout = type(layout).of(layout.dtype, Device("sim:0"), layout.shape)

    with pytest.raises(DeviceError, match=r"^TensorPipe RPC backend only supports CPU tensors"):
        destination(tensor._layout.device, {})


def test_what_does_not_pickle_is_named() -> None:
    # Python 3.13 has another text for this error.
    cannot = "Can't (pickle|get local object) .*lambda"
    text = rf"^cannot send the value\[0\] \(function\) to another worker: {cannot}"
    with pytest.raises(RpcError, match=text):
        serialize((lambda: 1,), [])


def test_of_a_call_the_argument_that_does_not_pickle_is_named() -> None:
    x = wrap(np.ones(3), from_array(np.ones(3))._layout)
    with pytest.raises(RpcError, match=r"^cannot send args\[1\]\['x'\]\[1\] \(lock\) to another"):
        serialize_call(len, (x, {"x": [x, threading.Lock()]}), {}, [])
    with pytest.raises(RpcError, match=r"^cannot send kwargs\['out'\] \(generator\) to another"):
        serialize_call(len, (x,), {"out": (i for i in range(3))}, [])
    with pytest.raises(RpcError, match=r"^cannot send the function \(function\) to another"):
        serialize_call(lambda: 1, (x,), {}, [])


def test_a_name_that_is_not_here_is_told_with_what_to_do() -> None:
    body, encoding = serialize(test_plain_values_come_back, [])
    with pytest.raises(AttributeError) as told:
        deserialize(body.replace(b"plain_values", b"other_values"), encoding, [])
    assert "define it at the top level of a module that both import" in told.value.__notes__[0]


@pytest.mark.parametrize(
    "entry",
    [
        TensorEntry(0, 0, 7, 0, 0xFFFF, 0, (5,), (1,)),
        TensorEntry(0, 4, 7, 0, 0xFFFF, 0, (4,), (1,)),
        TensorEntry(0, 0, 7, 0, 0xFFFF, 0, (2, 2**62), (2**62, 1)),
        TensorEntry(0, 0, 7, 0, 0xFFFF, 0, (2**40, 2**40), (0, 0)),
        TensorEntry(0, 0, 7, 0, 0xFFFF, 0, (2**34 + 1,), (0,)),
        TensorEntry(0, 0, 7, 0, 0xFFFF, 0, (0, 2**62), (1, 1)),
        TensorEntry(0, 0, 99, 0, 0xFFFF, 0, (1,), (1,)),
        TensorEntry(0, 0, dtypes.int64.code, 0, 0xFFFF, REQUIRES_GRAD, (1,), (1,)),
        TensorEntry(0, 0, dtypes.int64.code, 0, 0xFFFF, REQUIRES_GRAD | PARAMETER, (1,), (1,)),
        TensorEntry(0, 0, 7, 9, 0, 0, (1,), (1,)),
    ],
)
def test_a_tensor_outside_its_buffer_is_a_message_error(entry: TensorEntry) -> None:
    with pytest.raises(MessageError):
        unpack_tensors([entry], [bytearray(16)])


def test_rubbish_bodies_are_message_errors() -> None:
    for body in (b"", b"x", b"\x80\x05", b"garbage" * 10):
        with pytest.raises(MessageError):
            deserialize(body, 1, [])
    with pytest.raises(MessageError, match="unknown body encoding"):
        deserialize(b"", 77, [])


def exported(x: int) -> int:
    return x


def not_exported(x: int) -> int:
    return x


def test_open_mode_finds_everything_importable() -> None:
    assert round_trip(not_exported) is not_exported


def test_strict_mode_lets_exported_functions_and_plain_values_through(strict: None) -> None:
    gate.export(exported)
    assert round_trip(exported) is exported
    value = ({"a": [1, 2.0]}, KeyError("k"), np.arange(3), collections.OrderedDict(a=1))
    assert repr(round_trip(value)) == repr(value)
    assert round_trip([from_array(np.ones(2))])[0]._array.tolist() == [1.0, 1.0]


def test_strict_mode_refuses_the_rest_and_says_how_to_allow_it(strict: None) -> None:
    with pytest.raises(ForbiddenFunctionError, match=r"@rpc\.export"):
        round_trip(not_exported)
    for function in (eval, getattr, __import__):
        with pytest.raises(ForbiddenFunctionError):
            round_trip(function)


def test_strict_mode_allows_by_module_name(strict: None) -> None:
    import os.path

    with pytest.raises(ForbiddenFunctionError):
        round_trip(os.path.join)
    gate.allow("posixpath")
    assert round_trip(os.path.join) is os.path.join


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 1, 4)])
@pytest.mark.parametrize("kind", [Tensor, Parameter])
def test_a_lone_small_tensor_travels_as_it_does_among_others(
    kind: type, shape: tuple[int, ...]
) -> None:
    array = np.arange(float(np.prod(shape))).reshape(shape)
    tensor = from_array(array) if kind is Tensor else Parameter(from_array(array))
    sent = Message(
        0x102,
        7,
        source=3,
        incarnation=2**64 - 1,
        body=b"body",
        encoding=1,
        tensors=[tensor],
        timeout_ms=5_000,
    )
    short = sent.encode()
    sent.entries, sent.buffers = pack_tensors([tensor])
    sent.tensors = []
    assert short == [bytes(frame) for frame in sent.encode()]
    message = decode(short)
    message.open_leaves()
    (came,) = message.tensors
    assert type(came) is kind and came.requires_grad is (kind is Parameter)
    assert came._layout is tensor._layout and came._array.flags.writeable
    np.testing.assert_array_equal(came._array, array)


@pytest.mark.parametrize(
    "tensors",
    [
        [np.zeros(3), np.zeros(3)],
        [np.zeros((2, 3)).T],
        [np.zeros(INLINE_BYTES)],
    ],
)
def test_other_tensors_come_back_as_well(tensors: list[Any]) -> None:
    frames = Message(0x102, 7, tensors=[from_array(array) for array in tensors]).encode()
    message = decode([bytes(frame) for frame in frames])
    message.open()
    for came, sent in zip(message.tensors, tensors, strict=True):
        np.testing.assert_array_equal(came._array, sent)


def test_a_small_tensor_and_a_body_keep_to_a_small_frame() -> None:
    limits = Limits(frame_bytes=4096)
    tensor = from_array(np.arange(1000.0))
    message = Message(0x102, 7, body=bytes(3000), encoding=1, tensors=[tensor])
    frames = message.encode(limits=limits)
    assert max(map(len, frames)) <= 4096
    came = decode(frames, limits)
    came.open()
    np.testing.assert_array_equal(came.tensors[0]._array, tensor._array)
