"""grouped_mm: rejected arguments, and rows that belong to no group. The table tests the values."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd

grouped_mm = fd.nn.functional.grouped_mm
ROWS, STACK, COLUMNS = fd.ones(4, 8), fd.ones(2, 8, 4), fd.ones(8, 4)


def ends(*places: int) -> fd.Tensor:
    return fd.tensor(places, dtype=fd.int32)


REFUSED: list[tuple[fd.Tensor, fd.Tensor, dict[str, Any], str]] = [
    (ROWS, STACK, {}, "Have to provide offsets if there is a 2d matrix"),
    (ROWS, COLUMNS, {}, "Have to provide offsets if there is a 2d matrix"),
    (STACK.mT, STACK, {"offs": ends(2, 4)}, "or no offset if both matrices are 3d"),
    (fd.ones(3, 4, 8), STACK, {}, "batched dimension has to match"),
    (fd.ones(8), STACK, {"offs": ends(2, 4)}, "mat_a has to be 2 or 3d"),
    (ROWS, fd.ones(2, 9, 4), {"offs": ends(2, 4)}, "contraction dimension of mat_a and mat_b must"),
    (ROWS, STACK, {"offs": ends(2, 3, 4)}, "matrix batch sizes have to match"),
    (ROWS, STACK, {"offs": ends(2, 4).long()}, "Offsets have to be int32"),
    (ROWS, STACK, {"offs": ends(2, 4)[None]}, "offs has to be 1D"),
    (ROWS, STACK, {"offs": ends(3, 2)}, "offs must rise from 0 to at most 4"),
    (ROWS, STACK, {"offs": ends(-1, 2)}, "offs must rise from 0 to at most 4"),
    (ROWS, STACK, {"offs": ends(2, 5)}, "offs must rise from 0 to at most 4"),
    (ROWS.half(), STACK, {"offs": ends(2, 4)}, "expected m1 and m2 to have the same dtype"),
    (ROWS.int(), STACK.int(), {"offs": ends(2, 4)}, "Expected mat_a to be Float32, BFloat16"),
    (ROWS, STACK, {"offs": ends(2, 4), "bias": fd.ones(4)}, "Bias not supported yet"),
    (ROWS, STACK, {"offs": ends(2, 4), "out_dtype": fd.float16}, "output dtype must match `mat_a`"),
]


@pytest.mark.parametrize(("a", "b", "more", "words"), REFUSED)
def test_grouped_mm_refuses_what_does_not_fit(
    a: fd.Tensor, b: fd.Tensor, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(RuntimeError, match=words):
        grouped_mm(a, b, **more)


def test_grouped_mm_gives_no_gradient_to_rows_behind_the_last_group() -> None:
    rows, stack = fd.ones(4, 8, requires_grad=True), fd.ones(2, 8, 4, requires_grad=True)
    made = grouped_mm(rows, stack, offs=ends(1, 3))
    assert made.grad_fn is not None
    assert made.grad_fn.name() == "GroupedMmBackward0"
    made.sum().backward()
    assert rows.grad is not None
    assert stack.grad is not None
    assert rows.grad[:, 0].tolist() == [4, 4, 4, 0]
    assert stack.grad[:, 0, 0].tolist() == [1, 2]


def test_grouped_mm_of_halves_and_of_a_batch_gives_what_each_call_gives() -> None:
    rows = fd.arange(64.0).reshape(2, 4, 8).bfloat16()
    many = fd.vmap(lambda x: grouped_mm(x, STACK.bfloat16(), offs=ends(1, 4)))(rows)
    alone = [grouped_mm(x, STACK.bfloat16(), offs=ends(1, 4)) for x in rows]
    assert many.dtype is fd.bfloat16
    assert many.tolist() == fd.stack(alone).tolist()
