"""Tensors over foreign memory share it, with the given layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.caller_warning import forget_what_was_told


def test_frombuffer_shares_what_it_is_given() -> None:
    memory = bytearray(np.arange(4, dtype=np.int32).tobytes())
    seen = fd.frombuffer(memory, dtype=fd.int32, count=2, offset=4)
    memory[4] = 9
    assert seen.tolist() == [9, 2]


def test_frombuffer_warns_of_memory_that_may_not_be_written() -> None:
    forget_what_was_told()
    with pytest.warns(UserWarning, match="The given buffer is not writable"):
        assert fd.frombuffer(b"ab", dtype=fd.uint8).tolist() == [97, 98]


@pytest.mark.parametrize(
    ("buffer", "options", "error", "text"),
    [
        (bytearray(8), {"count": 3}, ValueError, r"requested buffer length \(3 \* 4 bytes\)"),
        (bytearray(7), {}, ValueError, "must be a multiple of element size"),
        (bytearray(7), {"offset": 9}, ValueError, r"offset \(9 bytes\) must be non-negative"),
        (bytearray(7), {"offset": -1}, ValueError, r"offset \(-1 bytes\) must be non-negative"),
        (bytearray(4), {"count": 0}, ValueError, r"both buffer length \(4\) and count \(0\)"),
        (bytearray(), {}, ValueError, r"both buffer length \(0\)"),
        ([1], {}, ValueError, "object does not implement Python buffer protocol"),
        (np.zeros((2, 2))[:, 0], {}, RuntimeError, "could not retrieve buffer from object"),
    ],
)
def test_frombuffer_refuses_what_is_no_whole_number_of_elements(
    buffer: Any, options: dict[str, int], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        fd.frombuffer(buffer, dtype=fd.int32, **options)


def test_asarray_shares_memory_where_it_can() -> None:
    x, array = fd.ones(2), np.ones(2)
    assert fd.asarray(x) is x
    assert fd.asarray(array).data_ptr() == array.ctypes.data
    assert fd.asarray(bytearray(b"ab"), dtype=fd.uint8).tolist() == [97, 98]
    assert fd.asarray([1, 2.5]).tolist() == [1.0, 2.5]
    assert fd.asarray(range(3)).tolist() == [0, 1, 2]
    assert fd.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert fd.asarray(x, dtype=fd.float64).dtype is fd.float64


def test_asarray_keeps_the_graph() -> None:
    x = fd.ones(2, requires_grad=True)
    assert fd.asarray(x * 2).grad_fn is not None
    assert fd.asarray(x, copy=True, requires_grad=True).grad_fn is not None
    assert fd.asarray(np.ones(2), requires_grad=True).is_leaf


@pytest.mark.parametrize(
    ("given", "options", "error"),
    [
        ([1.0], {}, ValueError),
        (3.0, {}, ValueError),
        (np.float32(1), {}, RuntimeError),
        (np.ones(2), {"dtype": fd.float32}, ValueError),
        (fd.ones(2), {"device": "sim:0"}, ValueError),
    ],
)
def test_asarray_refuses_to_share_what_it_would_have_to_copy(
    given: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match="can't alias"):
        fd.asarray(given, copy=False, **options)


def test_from_file_shares_what_is_written_only_if_told(tmp_path: Path) -> None:
    path = str(tmp_path / "numbers")
    made = fd.from_file(path, shared=True, size=3, dtype=fd.float64)
    made.copy_(fd.tensor([1.0, 2.0, 3.0]))
    own = fd.from_file(path, size=2, dtype=fd.float64)
    own[0] = 9.0
    again = fd.from_file(path, size=3, dtype=fd.float64)
    assert own.tolist() == [9.0, 2.0] and again.tolist() == [1.0, 2.0, 3.0]


def test_from_file_refuses_a_file_that_is_missing_or_short(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    with pytest.raises(RuntimeError, match="in read-only mode: No such file"):
        fd.from_file(str(path), size=3)
    path.write_bytes(bytes(12))
    with pytest.raises(RuntimeError, match="size <12> is smaller than the required mapping size"):
        fd.from_file(str(path), size=4)
    assert fd.from_file(str(path)).shape == (0,)


def test_a_storage_in_a_file_is_shared_by_its_slices_and_tensors(tmp_path: Path) -> None:
    # As in safetensors: map the bytes of the file, take a slice for each tensor, then set a dtype.
    path = tmp_path / "numbers"
    path.write_bytes(b"head" + np.arange(4, dtype=np.int16).tobytes())
    storage = fd.UntypedStorage.from_file(str(path), nbytes=12)
    found = fd.asarray(storage[6:12], dtype=fd.uint8).view(dtype=fd.int16)
    assert found.tolist() == [1, 2, 3]
    found[0] = 9
    assert storage[6] == 9 and path.read_bytes()[6] == 1, "not shared with the file"
    assert fd.asarray(storage[4:9], dtype=fd.int16).tolist() == [0, 9], "whole elements"
    assert fd.asarray(fd.FloatStorage([1.0, 2.0])).tolist() == [1.0, 2.0]
    kept = fd.UntypedStorage.from_file(str(path), True, 14)
    kept[13] = 7
    assert len(path.read_bytes()) == 14 and path.read_bytes()[13] == 7
    with pytest.raises(RuntimeError, match="unable to mmap -1 bytes"):
        fd.UntypedStorage.from_file(str(path), nbytes=-1)


def test_empty_memory_lies_as_told() -> None:
    assert fd.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert fd.ones(1).double().new_empty_strided((2, 3), (3, 1)).dtype is fd.float64
    assert fd.empty_strided((2, 3), (0, 1), device="sim:0").stride() == (0, 1)
    assert fd.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)
    assert fd.empty_strided((2, 3), (3, 1), requires_grad=True).is_leaf


@pytest.mark.parametrize(
    "call",
    [
        lambda: fd.empty_strided((2, 3), (1,)),
        lambda: fd.empty_strided((2, 3), (-1, 1)),
        lambda: fd.empty_strided((-2, 3), (1, 1)),
        lambda: fd.empty_permuted((2, 3), (0,)),
        lambda: fd.empty_permuted((2, 3), (0, 2)),
        lambda: fd.empty_permuted((2, 3), (0, 0)),
    ],
)
def test_what_cannot_lie_so_is_refused(call: Any) -> None:
    with pytest.raises(RuntimeError):
        call()


def test_scalar_tensor_has_the_default_dtype() -> None:
    found = fd.scalar_tensor(3)
    assert (found.shape, found.dtype, found.item()) == ((), fd.float32, 3.0)
    assert fd.scalar_tensor(3.5, dtype=fd.int64).item() == 3
    with pytest.raises(TypeError):
        fd.scalar_tensor([3])
