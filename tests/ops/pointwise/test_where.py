"""The choice between two values: conditions of uint8, which old programs of PyTorch have."""

from __future__ import annotations

import pytest

import fastdist as fd

CONDITION = fd.tensor([[2, 0], [0, 1]], dtype=fd.uint8)
OPERANDS = {
    "numbers": (1.0, 0.0),
    "integers": (1, 0),
    "tensors": (fd.tensor([1.0, 2.0]), fd.tensor([[3.0], [4.0]])),
    "number and double": (1.0, fd.tensor([3.0, 4.0], dtype=fd.float64)),
}


@pytest.mark.parametrize("operands", OPERANDS.values(), ids=OPERANDS)
def test_uint8_counts_as_true_unless_it_is_0(operands: tuple[object, object]) -> None:
    expected = fd.where(CONDITION != 0, *operands)
    for _ in range(3):  # later calls take the short path
        found = fd.where(CONDITION, *operands)
        assert found.dtype is expected.dtype and found.tolist() == expected.tolist()


def test_uint8_selects_the_inputs_that_get_gradients() -> None:
    x, y = fd.ones(2, 2, requires_grad=True), fd.ones(2, requires_grad=True)
    fd.where(CONDITION, x * 2, y * 3).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[2, 0], [0, 2]]
    assert y.grad is not None and y.grad.tolist() == [3, 3]


def test_uint8_is_taken_in_vmap_and_with_out() -> None:
    found = fd.func.vmap(lambda condition: fd.where(condition, 1.0, 0.0))(CONDITION)
    assert found.tolist() == [[1, 0], [0, 1]]
    out = fd.empty(2, 2)
    fd.where(CONDITION, fd.ones(2), fd.zeros(2), out=out)
    assert out.tolist() == [[1, 0], [0, 1]]


def test_other_integers_are_refused() -> None:
    with pytest.raises(RuntimeError, match="condition to be a boolean tensor, got int64"):
        fd.where(CONDITION.long(), 1.0, 0.0)
