"""cond and while_loop run as written, and symbolic numbers are Python's."""

from __future__ import annotations

import pytest

import fastdist as fd

X = fd.tensor([1.0, 2.0])


def test_cond_calls_the_branch_that_is_chosen_and_keeps_its_graph() -> None:
    x = X.clone().requires_grad_()
    for pred, slope in ((True, 2.0), (fd.tensor([False]), 3.0)):
        found = fd.cond(pred, lambda x: x * 2, lambda x: x * 3, (x,))
        assert fd.autograd.grad(found.sum(), x)[0].tolist() == [slope, slope]
    with pytest.raises(RuntimeError, match="Expected pred to be bool or single-element tensor"):
        fd.cond(X > 0, abs, abs, (X,))


def test_while_loop_carries_values() -> None:
    found = fd.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (fd.tensor(0), X))
    assert found[0].item() == 3 and found[1].tolist() == [8.0, 16.0]
    assert fd.while_loop(lambda i: i < 2, lambda i: i + 1, (fd.tensor(0),))[0].item() == 2
    with pytest.raises(RuntimeError, match="same number of elements as carried_inputs"):
        fd.while_loop(lambda i: i < 3, lambda i: (i, i), (fd.tensor(0),))


def test_symbolic_numbers_are_pythons() -> None:
    found = [fd.sym_int(-2.7), fd.sym_float(3), fd.sym_max(2, 1.0), fd.sym_min(1, 2)]
    assert str(found) == "[-2, 3.0, 2.0, 1]"
    assert [fd.sym_not(True), fd.sym_sqrt(4), fd.sym_sum([1, 2]), fd.sym_ite(False, 1, 2)] == [
        False, 2.0, 3, 2,
    ]  # fmt: skip
    assert not any(isinstance(X.shape[0], kind) for kind in (fd.SymInt, fd.SymFloat, fd.SymBool))
