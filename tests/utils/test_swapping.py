"""`swap_tensors` exchanges the contents of two tensors."""

from __future__ import annotations

import gc

import pytest

import fastdist as fd
from fastdist.utils import swap_tensors


def test_contents_classes_and_gradients_are_exchanged() -> None:
    p = fd.nn.Parameter(fd.ones(2))
    t = fd.arange(3.0).requires_grad_()
    (p * 2).sum().backward()
    p.label = "p"
    swap_tensors(p, t)
    assert type(p) is fd.Tensor and type(t) is fd.nn.Parameter
    assert p.tolist() == [0.0, 1.0, 2.0] and t.tolist() == [1.0, 1.0]
    assert t.grad.tolist() == [2.0, 2.0] and p.grad is None
    assert t.label == "p" and not hasattr(p, "label")
    (p * 3).sum().backward()
    (t * 5).sum().backward()
    assert p.grad.tolist() == [3.0] * 3 and t.grad.tolist() == [7.0, 7.0]


def test_a_tensor_with_a_view_in_use_is_not_exchanged() -> None:
    one, other = fd.ones(2, 2), fd.zeros(2)
    row = one[0]
    with pytest.raises(RuntimeError, match="Cannot swap t2 because a view of it is in use"):
        swap_tensors(other, one)
    del row
    gc.collect()
    swap_tensors(other, one)
    assert one.shape == (2,) and other.shape == (2, 2)
