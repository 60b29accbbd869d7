"""Conjugated views of Tensor subclasses share memory, and are plain Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd

from .test_conjugates import NUMBERS, OTHERS, Changing, numbers_of, x_of


class Kind(fd.Tensor):
    """A user-defined subclass of Tensor."""


def kind_of(array: np.ndarray = NUMBERS) -> Any:
    return x_of(array).as_subclass(Kind)


def test_a_subclass_meets_a_view() -> None:
    found = kind_of() * x_of(OTHERS).conj()
    assert type(found) is Kind
    np.testing.assert_allclose(numbers_of(found.as_subclass(fd.Tensor)), NUMBERS * OTHERS.conj())


@pytest.mark.parametrize(
    "take",
    [fd.conj, lambda k: k.conj(), lambda k: k.mH.mT, lambda k: k.H.T, lambda k: k.adjoint().T],
)
def test_the_view_of_a_subclass_is_one_of_its_memory(take: Changing) -> None:
    kind = kind_of()
    view = take(kind)
    assert view.is_conj()
    assert view.data_ptr() == kind.data_ptr()
    view.mul_(2j)
    view.imag.add_(1)
    expected = (NUMBERS.conj() * 2j + 1j).conj()
    np.testing.assert_array_equal(numbers_of(kind.as_subclass(fd.Tensor)), expected)
    assert type(kind) is Kind


def test_a_subclass_takes_over_the_call_that_makes_a_view() -> None:
    class Asked(fd.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func in (fd.Tensor.conj, fd.conj):
                return "taken"
            return super().__torch_function__(func, types, args, kwargs)

    asked = x_of().as_subclass(Asked)
    assert asked.conj() == fd.conj(asked) == "taken"
    assert asked.adjoint().is_conj()


def test_a_view_changed_by_a_subclass_stays_the_view() -> None:
    x, kind = x_of(), kind_of(OTHERS)
    view = x.conj()
    assert view.add_(kind) is view
    assert fd.add(kind, view, out=view) is view
    np.testing.assert_array_equal(numbers_of(x), (NUMBERS.conj() + 2 * OTHERS).conj())


def test_gradients_pass_the_view_of_a_subclass() -> None:
    x, plain = x_of().requires_grad_(), x_of().requires_grad_()
    ((x * 1).as_subclass(Kind).conj() * x_of(OTHERS)).sum().abs().backward()
    (plain.conj() * x_of(OTHERS)).sum().abs().backward()
    np.testing.assert_allclose(numbers_of(x.grad), numbers_of(plain.grad))


def test_a_view_is_made_no_subclass() -> None:
    x = x_of()
    with pytest.raises(RuntimeError, match=r"conjugated view .* Kind .* resolve_conj\(\)"):
        x.conj().as_subclass(Kind)
    with pytest.raises(RuntimeError, match=r"negated view .* Kind .* resolve_neg\(\)"):
        x.conj().imag.as_subclass(Kind)
    with pytest.raises(TypeError, match="must be a type of Tensor"):
        x.conj().as_subclass(int)
    for cls in (fd.Tensor, type(x.conj())):
        assert type(x.as_subclass(cls)) is fd.Tensor
        x.conj().as_subclass(cls).mul_(2)
    np.testing.assert_array_equal(numbers_of(x), NUMBERS * 4)
