"""DLPack shares memory with NumPy in both directions; the memory lives as long as either side."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.utils import dlpack

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_goes_there_and_back(name: str) -> None:
    x = fastdist.tensor([0, 1, 1]).to(getattr(fastdist, name))
    there = np.from_dlpack(x)
    back = fastdist.from_dlpack(there)
    assert there.dtype == x.dtype.numpy and back.dtype is x.dtype and back.tolist() == x.tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda: fastdist.arange(6.0).reshape(2, 3),
        lambda: fastdist.arange(6.0).reshape(2, 3).t(),
        lambda: fastdist.arange(12.0)[1::3],
        lambda: fastdist.tensor(3.5),
        lambda: fastdist.empty(0, 3),
    ],
)
def test_memory_is_shared_both_ways(make: Any) -> None:
    x = make()
    there = np.from_dlpack(x)
    assert there.shape == tuple(x.shape) and there.tolist() == x.tolist()
    back = fastdist.from_dlpack(there)
    if x.numel():
        # NumPy 2.0 imports arrays as read-only, so write to `x` then.
        (back if there.flags.writeable else x).fill_(7.0)
        assert back.data_ptr() == x.data_ptr() and back.stride() == x.stride()
        assert (there == 7.0).all() and bool((x == 7.0).all())


def test_memory_lives_as_long_as_either_side() -> None:
    there = np.from_dlpack(fastdist.arange(100_000))
    back = fastdist.from_dlpack(np.arange(100_000.0))
    gc.collect()
    assert there.sum() == back.sum().item() == sum(range(100_000))


def test_a_capsule_is_taken_once() -> None:
    capsule = dlpack.to_dlpack(fastdist.arange(3.0))
    assert fastdist.from_dlpack(capsule).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="from_dlpack received an invalid capsule"):
        dlpack.from_dlpack(capsule)
    unused = fastdist.to_dlpack(fastdist.arange(3.0))
    del unused


def test_a_library_of_before_dlpack_1_is_shared_with_as_well() -> None:
    class Older:
        """An array whose `__dlpack__` has no parameter for versions."""

        def __init__(self, array: Any) -> None:
            self._array = array

        def __dlpack_device__(self) -> Any:
            return self._array.__dlpack_device__()

        def __dlpack__(self, stream: Any = None) -> Any:
            return self._array.__dlpack__()

    array = np.arange(6.0).reshape(2, 3).T
    found = fastdist.from_dlpack(Older(array))
    found[1, 0] = 9.0
    assert array[1, 0] == 9.0 and found.stride() == (1, 3)


def test_what_is_only_for_reading_stays_so() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    found = fastdist.from_dlpack(array)
    with pytest.raises((RuntimeError, ValueError)):
        found[0] = 1.0


def test_copy_and_device_are_done_on_request() -> None:
    array = np.arange(3.0)
    fastdist.from_dlpack(array, copy=True)[0] = 9.0
    assert array[0] == 0.0
    assert str(fastdist.from_dlpack(array, device="sim").device) == "sim:0"
    x = fastdist.arange(3.0)
    assert np.from_dlpack(_Asking(x, copy=True)).ctypes.data != x.data_ptr()


class _Asking:
    """A producer that passes other options to the `__dlpack__` of its tensor."""

    def __init__(self, tensor: fastdist.Tensor, **options: Any) -> None:
        self._tensor, self._options = tensor, options

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()

    def __dlpack__(self, **_: Any) -> Any:
        return self._tensor.__dlpack__(**self._options)


def test_what_cannot_be_shared_is_told() -> None:
    with pytest.raises(BufferError, match="Can't export tensors that require gradient, use tensor"):
        fastdist.ones(1, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match=r"no other library reads memory of sim:0; use \.cpu\(\)"):
        fastdist.ones(1, device="sim").__dlpack__()
    with pytest.raises(BufferError, match=r"\(2, 0\) was requested"):
        fastdist.ones(1).__dlpack__(dl_device=(2, 0))
    with pytest.raises(RuntimeError, match="stream should be None on cpu"):
        fastdist.ones(1).__dlpack__(stream=5)
    with pytest.raises(TypeError, match="a int has no __dlpack__"):
        fastdist.from_dlpack(5)
    assert fastdist.ones(1).__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("operation", ["+", "-", "*", "/", "**", "@", "==", "<"])
def test_numpys_arrays_leave_operators_to_tensors(operation: str) -> None:
    array, x = np.array([1.0, 2.0, 4.0]), fastdist.tensor([3.0, 2.0, 1.0])
    as_arrays = {"array": array, "x": x.numpy()}
    for text in (f"array {operation} x", f"x {operation} array"):
        found = eval(text, {"array": array, "x": x})
        assert isinstance(found, fastdist.Tensor)
        np.testing.assert_allclose(found.numpy(), eval(text, as_arrays), rtol=1e-6)


def test_gradients_flow_through_arrays_on_the_left() -> None:
    w = fastdist.ones(3, requires_grad=True)
    (np.array([[1.0, 2.0, 3.0]]) @ w).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [1.0, 2.0, 3.0]
    assert w.grad.dtype is fastdist.float32


@pytest.mark.parametrize(
    "call",
    [np.sin, np.exp, np.isnan, np.sum, np.mean, lambda x: np.add(np.ones(3), x),
     lambda x: np.maximum(x, np.zeros(3)), lambda x: np.clip(x, 0, 1), np.add.reduce],
)  # fmt: skip
def test_numpys_functions_of_tensors_return_tensors(call: Any) -> None:
    x = fastdist.tensor([0.5, -1.0, 2.0])
    found = call(x)
    assert isinstance(found, fastdist.Tensor)
    np.testing.assert_allclose(found.numpy(), call(x.numpy()), rtol=1e-6)


def test_numpy_takes_tensors_for_arrays() -> None:
    x = fastdist.tensor([1.0, 2.0])
    assert np.asarray(x).ctypes.data == x.data_ptr()
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.array(x, copy=True).ctypes.data != x.data_ptr()
    assert np.stack([x, x]).shape == (2, 2) and np.allclose(x, [1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        np.sin(x.clone().requires_grad_())
    with fastdist.no_grad():
        assert np.asarray(x.clone().requires_grad_()).tolist() == [1.0, 2.0]
