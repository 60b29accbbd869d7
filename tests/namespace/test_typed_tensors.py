"""PyTorch's old constructors of sparse tensors, which graph networks still use."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd

INDICES = fd.tensor([[0, 1], [1, 0]])


def test_a_sparse_tensor_is_made_of_indices_values_and_a_size() -> None:
    made = fd.sparse.FloatTensor(INDICES, fd.tensor([1.0, 2.0]), fd.Size([2, 3]))
    assert made.to_dense().tolist() == [[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]]


def test_a_sparse_tensor_keeps_the_dtype_of_its_values() -> None:
    made = fd.sparse.FloatTensor(INDICES, fd.tensor([1, 2]))
    assert (made.dtype, made.shape) == (fd.int64, (2, 2))


@pytest.mark.parametrize("size", [(), (2, 3), (fd.Size([2, 3]),)], ids=str)
def test_a_sparse_tensor_of_a_size_alone_is_all_zeros(size: Any) -> None:
    made = fd.sparse.DoubleTensor(*size)
    assert (made.shape, made.dtype) == ((2, 3) if size else (0,), fd.float64)
    assert made.is_sparse and not made.to_dense().any()


@pytest.mark.parametrize("args", [([[0], [1]], [1.0]), (INDICES,), ("ab",)], ids=str)
def test_a_sparse_tensor_of_anything_else_is_refused(args: Any) -> None:
    with pytest.raises(TypeError, match=r"new\(\) received an invalid combination of arguments"):
        fd.sparse.FloatTensor(*args)


def test_isinstance_asks_for_the_layout_and_the_dtype() -> None:
    made = fd.sparse.FloatTensor(2, 3)
    kinds = fd.sparse.FloatTensor, fd.sparse.DoubleTensor
    assert [isinstance(made, kind) for kind in kinds] == [True, False]
    assert not isinstance(fd.ones(2), fd.sparse.FloatTensor)


def test_new_of_a_tensor_is_another_handle_to_it() -> None:
    given = fd.tensor([1.0, 2.0])
    made = fd.ones(3).new(given)
    assert made is not given and made.data_ptr() == given.data_ptr()
    with pytest.raises(TypeError, match="expected float32 on cpu"):
        fd.ones(3).new(given.int())
