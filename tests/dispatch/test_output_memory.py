"""`out=` that shares memory with operands, and the dtype in which sums into `out` are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd

Call = Callable[..., Any]
SHARED = "some elements of the input tensor and the written-to tensor refer to a single memory"
PLACES = fd.arange(4)


def indices() -> Any:
    return fd.empty(0, dtype=fd.int64)


# Calls that read and write four elements in order, elementwise or along an axis:
APART: dict[str, Call] = {
    "round": lambda x, out: fd.round(x, decimals=1, out=out),
    "clamp": lambda x, out: fd.clamp(x, 0, 1, out=out),
    "cumsum": lambda x, out: fd.cumsum(x, 0, out=out),
    "logcumsumexp": lambda x, out: fd.logcumsumexp(x, 0, out=out),
    "sort": lambda x, out: fd.sort(x, out=(out, indices())),
    "topk": lambda x, out: fd.topk(x, 4, out=(out, indices())),
    "max": lambda x, out: fd.max(x.reshape(1, 4), 0, out=(out, indices())),
    "outer": lambda x, out: fd.outer(x, fd.ones(1), out=out.reshape(4, 1)),
    "scatter": lambda x, out: fd.scatter(x, 0, PLACES, fd.ones(4), out=out),
    "index_add": lambda x, out: fd.index_add(x, 0, PLACES, fd.ones(4), out=out),
    "addmm": lambda x, out: fd.addmm(
        x.reshape(2, 2), fd.ones(2, 1), fd.ones(1, 2), out=out.reshape(2, 2)
    ),
}
# Calls that may read an element from another position than the one to which they write it:
WHOLLY: dict[str, Call] = {
    "cat": lambda x, out: fd.cat([x[:2], x[2:]], out=out),
    "stack": lambda x, out: fd.stack([x[:2], x[2:]], out=out.reshape(2, 2)),
    "gather": lambda x, out: fd.gather(x, 0, PLACES, out=out),
    "index_select": lambda x, out: fd.index_select(x, 0, PLACES, out=out),
    "take": lambda x, out: fd.take(x, PLACES, out=out),
    "masked_select": lambda x, out: fd.masked_select(x, x > 0, out=out),
    "scatter of a source": lambda x, out: fd.scatter(fd.ones(4), 0, PLACES, x, out=out),
    "scatter_add of a source": lambda x, out: fd.scatter_add(fd.ones(4), 0, PLACES, x, out=out),
}
# Calls that read all elements before they write the first:
TAKEN: dict[str, Call] = {
    "sum": lambda x, out: fd.sum(x.reshape(1, 4), 0, out=out),
    "softmax": lambda x, out: fd.softmax(x, 0, out=out),
    "median": lambda x, out: fd.median(x.reshape(1, 4), 0, out=(out, indices())),
    "mm": lambda x, out: fd.mm(x.reshape(2, 2), fd.eye(2), out=out.reshape(2, 2)),
    "addmm of a factor": lambda x, out: fd.addmm(
        fd.zeros(2, 2), x.reshape(2, 2), fd.eye(2), out=out.reshape(2, 2)
    ),
    "tril": lambda x, out: fd.tril(x.reshape(2, 2), out=out.reshape(2, 2)),
    "inv": lambda x, out: fd.linalg.inv(x.reshape(2, 2), out=out.reshape(2, 2)),
}


@pytest.mark.parametrize("name", [*APART, *WHOLLY, *TAKEN])
def test_an_out_that_lies_in_part_in_what_is_read_is_refused_where_pytorch_does(name: str) -> None:
    """See Note [Memory of out] in dispatch/target.py."""
    memory = fd.tensor([3.0, 1.0, 4.0, 1.5, 5.0])
    call = (APART | WHOLLY | TAKEN)[name]
    expected = fd.empty(4)
    call(memory[:4].clone(), expected)
    before = memory.tolist()
    if name in TAKEN:
        call(memory[:4], memory[1:])
        assert memory[1:].tolist() == expected.tolist()
    else:
        with pytest.raises(RuntimeError, match=SHARED):
            call(memory[:4], memory[1:])
        assert memory.tolist() == before
    memory = fd.tensor(before)
    if name in WHOLLY:
        with pytest.raises(RuntimeError, match=SHARED):
            call(memory[:4], memory[:4])
        itself = memory[:4].clone()
        with pytest.raises(RuntimeError, match=SHARED):
            call(itself, itself)
    else:
        call(memory[:4], memory[:4])
        assert memory[:4].tolist() == expected.tolist()


def test_a_scatter_into_out_loses_no_gradient_of_its_source() -> None:
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        fd.scatter(fd.ones(4), 0, PLACES, fd.ones(4, requires_grad=True), out=fd.empty(4))


RUNNING: dict[str, tuple[Call, list[float], list[int]]] = {
    "sum": (lambda x, **more: fd.sum(x, 0, **more), [4.5, 5.0], [3, 4]),
    "prod": (lambda x, **more: fd.prod(x, 0, **more), [1.875, 4.5], [0, 2]),
    "cumsum": (lambda x, **more: fd.cumsum(x, 0, **more)[1], [3.0, 3.5], [2, 3]),
    "cumprod": (lambda x, **more: fd.cumprod(x, 0, **more)[1], [1.25, 3.0], [0, 2]),
}


@pytest.mark.parametrize("name", RUNNING)
def test_sums_and_products_compute_in_the_dtype_of_their_out(name: str) -> None:
    call, as_floats, as_integers = RUNNING[name]
    x = fd.tensor([[0.5, 2.0], [2.5, 1.5], [1.5, 1.5]])
    shape = (2,) if name in ("sum", "prod") else (3, 2)
    assert call(x, out=fd.empty(shape)).tolist() == as_floats
    for dtype in (fd.int64, fd.uint8):
        assert call(x, out=fd.empty(shape, dtype=dtype)).tolist() == as_integers
    wide = fd.empty(shape, dtype=fd.float64)
    assert call(x / 10, out=wide).tolist() == call((x / 10).double()).tolist()
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float32, but got"):
        call(x, dtype=fd.float32, out=fd.empty(shape, dtype=fd.int64))
