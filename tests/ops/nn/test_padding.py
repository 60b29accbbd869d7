"""nn.functional.pad: negative padding, and rejected arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.nn.functional import pad
from tests.properties import in_one_test


def test_negative_padding_takes_away() -> None:
    x = fd.arange(4)
    assert pad(x, (-1, -2)).tolist() == [1]
    assert pad(x, (2, -1), value=7).tolist() == [7, 7, 0, 1, 2]
    x = x.reshape(1, 4)
    assert pad(x, (1, -1), "reflect").tolist() == [[1, 0, 1, 2]]


@in_one_test("dtype", ["float32", "int64", "bool", "uint8", "complex64", "bfloat16"])
def test_few_numbers_are_padded_as_many_and_as_recorded_ones(dtype: str) -> None:
    kind = getattr(fd, dtype)
    x = fd.arange(12).reshape(3, 4).to(kind)
    for ends in ((1, 2), (1, -1, 2, 0), (-1, -1, 1, 1)):
        few = pad(x, ends, value=1)
        observed = fd.vmap(lambda one, ends=ends: pad(one, ends, value=1))(x.unsqueeze(0))[0]
        assert few.dtype is observed.dtype is kind and few.tolist() == observed.tolist()


def test_a_value_is_padded_as_it_is_and_passes_no_gradient() -> None:
    x = fd.arange(6.0).reshape(2, 3).requires_grad_()
    padded = pad(x, (1, 0), value=-0.0)
    assert fd.signbit(padded[:, 0]).all() and not fd.signbit(pad(x, (1, 0), value=0.0)).any()
    assert pad(x, (0, 1), value=float("nan"))[:, 3].isnan().all()
    (slope,) = fd.autograd.grad((pad(x, (2, 1), value=3.0) ** 2).sum(), x, create_graph=True)
    assert slope.tolist() == (2 * x).tolist()
    assert fd.autograd.grad(slope.sum(), x)[0].eq(2).all()
    _, tangent = fd.func.jvp(lambda x: pad(x, (1, 0), value=3.0), (x.detach(),), (fd.ones(2, 3),))
    assert tangent.tolist() == [[0, 1, 1, 1]] * 2
    many = pad(fd.ones(200, 200), (1, 2), value=-0.0)
    assert many[:, 1:201].eq(1).all() and fd.signbit(many[:, [0, 201, 202]]).all()
    with pytest.raises(RuntimeError, match="cannot be converted to type float32"):
        pad(x, (1, 0), value=1j)


def test_circular_padding_goes_round_what_negative_padding_leaves() -> None:
    x = fd.arange(5).reshape(1, 5)
    assert pad(x, (2, -1), "circular").tolist() == [[2, 3, 0, 1, 2, 3]]
    assert pad(x, (-2, 3), "circular").tolist() == [[2, 3, 4, 2, 3, 4]]
    assert pad(x, (-1, -1), "circular").tolist() == [[1, 2, 3]]
    assert pad(x, (5, 5), "circular").tolist() == [[0, 1, 2, 3, 4] * 3]


def test_replicated_ends_may_outlast_the_input() -> None:
    assert pad(fd.tensor([[[7.0]]]), (-3, 4), "replicate").tolist() == [[[7.0, 7.0]]]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: pad(fd.ones(2), (1,)), RuntimeError, "Padding length must be divisible by 2"),
        (lambda: pad(fd.ones(3), (1, 1, 1, 1)), RuntimeError, "less than or equal to two times"),
        (lambda: pad(fd.ones(1, 3), (-2, -2)), RuntimeError, "negative output size"),
        (lambda: pad(fd.ones(3), (-4, 2)), RuntimeError, "negative output size"),
        (lambda: pad(fd.ones(1, 3), (1, 1), "foo"), NotImplementedError, "padding mode foo"),
        (lambda: pad(fd.ones(3), (1, 1), "reflect"), NotImplementedError, "not supported for 1D"),
        (lambda: pad(fd.ones(1, 3), (3, 3), "reflect"), RuntimeError, "should be less than"),
        (lambda: pad(fd.ones(1, 3), (4, 3), "circular"), RuntimeError, "more than once"),
        (lambda: pad(fd.ones(1, 3), (1, 1), "circular", 2), ValueError, "take in value argument"),
        (lambda: pad(fd.ones(3), "a"), TypeError, "argument 'pad'"),
        (lambda: pad(fd.ones(2, 3), (), "reflect"), NotImplementedError, "Padding size 0 is not"),
        (lambda: pad(fd.ones(1, 5), (4, -3), "circular"), RuntimeError, "more than once"),
        (lambda: pad(fd.ones(1, 2), (-2, -1), "circular"), RuntimeError, "an empty dimension"),
        (lambda: pad(fd.ones(0, 3), (1, 0), "reflect"), RuntimeError, "Expected 2D or 3D"),
        (lambda: pad(fd.ones(1, 3), (0, 3), "reflect"), RuntimeError, "Argument #4: Padding"),
        (
            lambda: pad(fd.ones(2, 3), (-1, -2), "replicate"),
            RuntimeError,
            r"input \(W: 3\) is too small. Calculated output W: 0",
        ),
    ],
)
def test_padding_that_does_not_fit_is_refused(
    call: Callable[[], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_later_recorded_padding_has_the_node_and_the_checks_of_the_first(mode: str) -> None:
    x = fd.rand(2, 3, 5, 5, requires_grad=True)
    first = pad(x, (2, 1, 1, 0), mode)
    (slope,) = fd.autograd.grad(first, x, first.detach(), retain_graph=True)
    for _ in range(2):
        out = pad(x, (2, 1, 1, 0), mode)
        assert fd.equal(out, first) and out.grad_fn.name() == first.grad_fn.name()
        assert fd.equal(fd.autograd.grad(out, x, first.detach())[0], slope)
        with fd.no_grad():
            assert not pad(x, (2, 1, 1, 0), mode).requires_grad
        assert fd.equal(pad(x, [2, 1, 1, 0], mode), first)
        with pytest.raises(TypeError):
            pad(x, (2.0, 1, 1, 0), mode)
        with pytest.raises(ValueError, match="value argument"):
            pad(x, (2, 1, 1, 0), mode, 1.0)
