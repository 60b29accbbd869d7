"""Functions that copy a view have the view's values and derivatives, and separate memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from tests.ops.differences import check_first_order, check_second_order, generator

COPIES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "alias_copy": (fd.alias_copy, lambda x: x),
    "as_strided_copy": (
        lambda x: fd.as_strided_copy(x, (2,), (4,), 1),
        lambda x: x.as_strided((2,), (4,), 1),
    ),
    "detach_copy": (fd.detach_copy, lambda x: x),
    "diagonal_copy": (lambda x: fd.diagonal_copy(x, 1), lambda x: x.diagonal(1)),
    "expand_copy": (
        lambda x: fd.expand_copy(x[:1], (2, -1, -1)),
        lambda x: x[:1].expand(2, -1, -1),
    ),
    "permute_copy": (lambda x: fd.permute_copy(x, (2, 0, 1)), lambda x: x.permute(2, 0, 1)),
    "select_copy": (lambda x: fd.select_copy(x, 1, 2), lambda x: x[:, 2]),
    "slice_copy": (lambda x: fd.slice_copy(x, 2, 1, None, 2), lambda x: x[:, :, 1::2]),
    "split_copy": (lambda x: fd.split_copy(x, 2, 1)[1], lambda x: x[:, 2:]),
    "split_with_sizes_copy": (
        lambda x: fd.split_with_sizes_copy(x, [1, 2], 1)[1],
        lambda x: x[:, 1:],
    ),
    "squeeze_copy": (lambda x: fd.squeeze_copy(x[:1], dim=0), lambda x: x[0]),
    "t_copy": (lambda x: fd.t_copy(x[0]), lambda x: x[0].t()),
    "transpose_copy": (lambda x: fd.transpose_copy(x, 0, 2), lambda x: x.transpose(0, 2)),
    "unbind_copy": (lambda x: fd.unbind_copy(x, 1)[1], lambda x: x[:, 1]),
    "unfold_copy": (lambda x: fd.unfold_copy(x, 1, 2, 1), lambda x: x.unfold(1, 2, 1)),
    "unsqueeze_copy": (lambda x: fd.unsqueeze_copy(x, 1), lambda x: x.unsqueeze(1)),
    "view_as_complex_copy": (
        lambda x: fd.view_as_complex_copy(x[..., :2]).abs(),
        lambda x: fd.view_as_complex(x[..., :2]).abs(),
    ),
    "view_as_real_copy": (
        lambda x: fd.view_as_real_copy(fd.complex(x, x + 1).conj()),
        lambda x: fd.view_as_real(fd.complex(x, x + 1).conj().resolve_conj()),
    ),
    "view_copy": (lambda x: fd.view_copy(x, (6, 4)), lambda x: x.view(6, 4)),
    "narrow_copy": (lambda x: x.narrow_copy(1, 1, 2), lambda x: x[:, 1:3]),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_a_copy_has_the_numbers_of_the_view_and_memory_of_its_own(name: str, device: str) -> None:
    copied, viewed = COPIES[name]
    x = fd.arange(24.0, device=device).reshape(2, 3, 4)
    found, expected = copied(x), viewed(x).clone()
    x.zero_()
    assert fd.equal(found, expected) and found.is_contiguous()


@pytest.mark.parametrize("name", COPIES)
def test_derivatives_are_those_of_differences(name: str) -> None:
    x = generator(name).uniform(-2, 2, (2, 3, 4))
    check_first_order(COPIES[name][0], [x], generator(f"{name} direction"))
    check_second_order(COPIES[name][0], [x], generator(f"{name} second direction"))


def test_out_takes_one_result_or_all() -> None:
    x, rooms = fd.arange(4.0).reshape(2, 2), (fd.zeros(1, 2), fd.zeros(1, 2))
    assert fd.t_copy(x, out=fd.zeros(2, 2)).tolist() == [[0.0, 2.0], [1.0, 3.0]]
    fd.split_copy(x, 1, out=rooms)
    assert [room.tolist() for room in rooms] == [[[0.0, 1.0]], [[2.0, 3.0]]]


def test_sparse_tensors_are_copied_by_parts() -> None:
    x = fd.eye(2).to_sparse().coalesce()
    assert fd.values_copy(x).tolist() == [1.0, 1.0]
    assert fd.indices_copy(x).tolist() == [[0, 1], [0, 1]]


def test_fill_gives_the_gradient_to_its_value() -> None:
    x, value = fd.ones(2, 3, requires_grad=True), fd.tensor(2.0, requires_grad=True)
    fd.fill(x, value).sum().backward()
    assert (x.grad.tolist(), value.grad.item()) == ([[0.0] * 3] * 2, 6.0)
    with pytest.raises(RuntimeError, match="only supports 0-dimension value"):
        fd.fill(x, fd.ones(1))
