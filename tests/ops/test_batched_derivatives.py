"""Derivatives of a batch of calls, inside vmap and through vmap, compared with single calls.

A batched tensor has no graph and no tangents; the tensor inside it has them. A function that checks
the batched tensor for them would skip its derivatives and return zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist import linalg as LA
from fastdist.func import grad, jvp, vmap
from tests.ops.cases import Case, F, as_tensors
from tests.ops.test_table import DIFFERENTIABLE, differentiated

pytestmark = [
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
    pytest.mark.filterwarnings("ignore:Using a target size:UserWarning"),
]
CALLS = 3
BEGINNINGS = (
    *("linalg.", "conv", "norm", "nuclear_norm", "embedding", "lstm", "gru", "rnn", "masked_sc"),
    *(
        "attention",
        "frexp",
        "index_copy",
        "select_scatter",
        "slice_s",
        "diagonal_s",
        "repeat_inter",
    ),
)
CHOSEN = [param for param in DIFFERENTIABLE if param.values[0].startswith(BEGINNINGS)]


def close(found: Any, expected: Any) -> None:
    fd.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def number_of(result: fd.Tensor) -> fd.Tensor:
    """Return a number that depends on all elements of a result, each with a different weight."""
    numbers = fd.view_as_real(result) if result.is_complex() else result
    weights = fd.arange(1, numbers.numel() + 1, dtype=fd.float64).cos()
    return (numbers.square() * weights.reshape(numbers.shape)).sum()


def in_dims_of(inputs: list[list[fd.Tensor]]) -> list[tuple[int | None, ...]]:
    """Return the batch axes to test: the first or second of all inputs, or the second of one."""
    n = len(inputs)
    second = tuple(min(1, one[0].ndim) for one in inputs)
    alone = [tuple(d if i == k else None for i, d in enumerate(second)) for k in range(n)]
    return list(dict.fromkeys([(0,) * n, second, *alone]))


def check(f: Callable[..., fd.Tensor], inputs: list[list[fd.Tensor]]) -> None:
    """Compare vmap(grad), grad(vmap) and vmap(jvp) of a function with loops.

    `inputs` has one list per argument, with the inputs of all calls.
    """
    every = tuple(range(len(inputs)))
    tangents = [fd.stack(one).sin() for one in inputs]

    def loss(*one: fd.Tensor) -> fd.Tensor:
        return number_of(f(*one))

    def push(*both: fd.Tensor) -> Any:
        return jvp(loss, both[: len(every)], both[len(every) :])[1]

    for dims in in_dims_of(inputs):
        calls = [
            [one[0 if d is None else i] for one, d in zip(inputs, dims, strict=True)]
            for i in range(CALLS)
        ]
        given = [
            one[0] if d is None else fd.stack(one, d) for one, d in zip(inputs, dims, strict=True)
        ]
        by_call = [grad(loss, every)(*one) for one in calls]
        expected = [fd.stack(one) for one in zip(*by_call, strict=True)]
        close(list(vmap(grad(loss, every), dims)(*given)), expected)
        through = grad(lambda *whole, dims=dims: vmap(loss, dims)(*whole).sum(), every)(*given)
        for found, one, d in zip(through, expected, dims, strict=True):
            close(found, one.sum(0) if d is None else one.movedim(0, d))
        pushed = [push(*one, *[tangent[i] for tangent in tangents]) for i, one in enumerate(calls)]
        close(vmap(push, (*dims, *(0,) * len(every)))(*given, *tangents), fd.stack(pushed))


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "one"), CHOSEN)
def test_derivatives_of_a_batch_are_those_of_each_call(name: str, one: Case) -> None:
    f, arrays = differentiated(one, one.arrays(f"{name} 0"))
    given = [as_tensors(arrays, fd.float64)]
    for i in range(1, CALLS):
        given.append(as_tensors(differentiated(one, one.arrays(f"{name} {i}"))[1], fd.float64))
    check(f, [list(one) for one in zip(*given, strict=True)])


# Functions that compute less if nothing is differentiated, or that use such functions.
PLACES = fd.tensor([0, 2, 1, 2])
LSTM = fd.nn.LSTM(4, 3, dtype=fd.float64).requires_grad_(False)
MORE: dict[str, Callable[[fd.Tensor], fd.Tensor]] = {
    "svdvals of columns": lambda a: LA.svdvals(a.mT),
    "eigvals": lambda a: LA.eigvals(a).abs(),
    "eigvalsh": lambda a: LA.eigvalsh(a + a.mT),
    "norm 2": lambda a: LA.norm(a, 2),
    "norm -2": lambda a: LA.norm(a, -2),
    "matrix_norm 2": lambda a: LA.matrix_norm(a, 2),
    "matrix_norm -2": lambda a: LA.matrix_norm(a, -2),
    "matrix_norm nuc": lambda a: LA.matrix_norm(a, "nuc"),
    "norm nuc": lambda a: fd.norm(a, p="nuc"),
    "cond": LA.cond,
    "cond -2": lambda a: LA.cond(a, -2),
    "embedding by frequency": lambda a: F.embedding(PLACES, a, scale_grad_by_freq=True),
    "embedding_bag by frequency": lambda a: F.embedding_bag(
        PLACES.reshape(2, 2), a, scale_grad_by_freq=True
    ),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", MORE)
def test_no_short_cut_is_taken_inside_of_a_batch(name: str) -> None:
    fd.manual_seed(4)
    far = fd.diag(fd.arange(2.0, 6.0, dtype=fd.float64))
    check(MORE[name], [[fd.randn(4, 4, dtype=fd.float64) + far for _ in range(CALLS)]])


def test_tangents_go_through_a_recurrent_layer_inside_of_a_batch() -> None:
    x, t = fd.randn(2, CALLS, 5, 4, dtype=fd.float64)

    def push(x: fd.Tensor, t: fd.Tensor) -> Any:
        return jvp(lambda x: LSTM(x)[0], (x,), (t,))[1]

    close(vmap(push)(x, t), fd.stack([push(*one) for one in zip(x, t, strict=True)]))


def test_frequencies_of_each_call_divide_its_gradient() -> None:
    weight, places = fd.randn(2, 4, 3), fd.tensor([[0, 0, 1], [3, 2, 3]])

    def loss(weight: fd.Tensor, places: fd.Tensor) -> fd.Tensor:
        return F.embedding(places, weight, scale_grad_by_freq=True).square().sum()

    def twice(weight: fd.Tensor) -> fd.Tensor:
        return vmap(lambda places: vmap(loss, (0, None))(weight, places))(places).sum()

    each = [[grad(loss)(w, p) for p in places] for w in weight]
    close(vmap(grad(loss))(weight, places), fd.stack([each[0][0], each[1][1]]))
    close(grad(twice)(weight), fd.stack([one[0] + one[1] for one in each]))
