"""Softmax, norms, cross entropy and linear layers of small arrays, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linalg.product import LEAST_OF_FEW_ROWS, product, suits_panels
from ..memory import BLOCKS_FROM
from ..reduce.sums import add_up
from ..rows import long_cross_entropy, long_rows, small_rows
from ..silence import silent
from .call_facts import TERMS, CallFacts, Run, Shape, adder_of_columns, gradients, small


def _in_own(name: str, facts: CallFacts) -> str:
    """Return the name of a gradient's loop. For float64 it is the loop that keeps more digits: see
    Note [Slopes of rows with one large share] in fastdist/ops/nn/softmax.py.
    """
    return f"{name}_wide" if facts.dtype.itemsize == 8 else name


@small("nn.softmax.softmax")
def _softmax(facts: CallFacts) -> Run | None:
    if not facts.small:
        return long_rows.mapped(facts, "softmax")
    return small_rows.mapped(facts, "small_softmax")


@gradients("nn.softmax.softmax")
def _softmax_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    if not facts.small:
        return long_rows.mapped_gradient(facts, _in_own("softmax_gradient", facts))
    return small_rows.mapped_gradient(facts, "small_softmax_gradient")


@small("nn.softmax.log_softmax")
def _log_softmax(facts: CallFacts) -> Run | None:
    if not facts.small:
        return long_rows.mapped(facts, "log_softmax")
    return small_rows.mapped(facts, "small_log_softmax")


@gradients("nn.softmax.log_softmax")
def _log_softmax_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    if not facts.small:
        return long_rows.mapped_gradient(facts, _in_own("log_softmax_gradient", facts))
    return small_rows.mapped_gradient(facts, "small_log_softmax_gradient")


@small("reduce.reductions.logsumexp")
def _logsumexp(facts: CallFacts) -> Run | None:
    return small_rows.logsumexp(facts) if facts.small else long_rows.logsumexp(facts)


@gradients("reduce.reductions.logsumexp")
def _logsumexp_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    if not facts.small:
        return long_rows.reduction_gradient(facts, "logsumexp_gradient")
    return small_rows.reduction_gradient(facts, "small_logsumexp_gradient")


@small("nn.normalization.layer_norm")
def _layer_norm(facts: CallFacts) -> Run | None:
    return small_rows.layer_norm(facts) if facts.small else long_rows.layer_norm(facts)


@gradients("nn.normalization.layer_norm")
def _layer_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    if facts.small:
        return small_rows.layer_norm_gradient(facts)
    return long_rows.layer_norm_gradient(facts)


@small("nn.normalization.rms_norm")
def _rms_norm(facts: CallFacts) -> Run | None:
    return small_rows.rms_norm(facts) if facts.small else long_rows.rms_norm(facts)


@gradients("nn.normalization.rms_norm")
def _rms_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    if facts.small:
        return small_rows.rms_norm_gradient(facts)
    return long_rows.rms_norm_gradient(facts)


@small("nn.cross_entropy.rows")
def _cross_entropy(facts: CallFacts) -> Run | None:
    if facts.small:
        return small_rows.cross_entropy(facts)
    return long_cross_entropy.cross_entropy(facts)


@small("nn.cross_entropy.losses")
def _cross_entropy_losses(facts: CallFacts) -> Run | None:
    if facts.small:
        return small_rows.cross_entropy(facts, is_alone=True)
    return long_cross_entropy.cross_entropy(facts, is_alone=True)


@gradients("nn.cross_entropy.rows")
def _cross_entropy_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    if facts.small:
        return small_rows.cross_entropy_gradient(facts)
    return long_cross_entropy.cross_entropy_gradient(facts)


@small("linalg.product.linear")
def _linear(facts: CallFacts) -> Run | None:
    rows, inputs = facts.shapes[0]  # type: ignore[misc]
    outputs = facts.shapes[1][0]  # type: ignore[index]
    if not facts.one_dtype or facts.dtype.itemsize < 4:
        return None
    if rows * inputs * outputs >= LEAST_OF_FEW_ROWS:
        return None
    if facts.shapes[2] is None:
        return lambda input, weight, bias: input.dot(weight.T)
    add = np.add

    def run(input: Any, weight: Any, bias: Any) -> Any:
        out = input.dot(weight.T)
        return add(out, bias, out)

    return run


@gradients("linalg.product.linear")
def _linear_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    if not facts.one_dtype or facts.dtype.itemsize < 4:
        return None
    rows, inputs = facts.shapes[0]  # type: ignore[misc]
    outputs = facts.shapes[1][0]  # type: ignore[index]
    has_axes = facts.shapes[2] != ()
    few = rows <= TERMS
    down: Run = adder_of_columns(rows, outputs, facts.dtype) if few else lambda g: add_up(g, 0)

    def by_bias(g: Any) -> Any:
        return down(g) if has_axes else np.asarray(add_up(g))

    if suits_panels(rows, outputs, inputs, facts.dtype):
        return product, lambda g, input: product(g.T, input), by_bias
    return lambda g, weight: g.dot(weight), lambda g, input: g.T.dot(input), by_bias


def _is_matrix_product(facts: CallFacts) -> bool:
    """Return whether BLAS can multiply the matrices as they are, with memory from NumPy.

    Note    not for large results: NumPy's allocation cannot release the blocks that memory.py keeps
    """
    a, b = facts.shapes
    assert a is not None and b is not None
    return (
        len(a) == len(b) == 2
        and a[1] > 0
        and facts.one_dtype
        and max(a[0] * b[1], a[0] * a[1], b[0] * b[1]) * facts.dtype.itemsize < BLOCKS_FROM
        and not suits_panels(*a, b[1], facts.dtype)
    )


@small("linalg.product.matmul")
def _matmul(facts: CallFacts) -> Run | None:
    a, b = facts.shapes
    if len(a) == 1 or len(b) == 1:  # type: ignore[arg-type]
        return _of_vectors(a, b, facts)  # type: ignore[arg-type]
    # A product takes 325 ns with the method dot, 500 ns with np.dot, and 910 ns with np.matmul.
    return np.ndarray.dot if _is_matrix_product(facts) else None


@silent
def _of_vectors(a: Shape, b: Shape, facts: CallFacts) -> Run:
    """Return the product of vectors, which has the same bits as the product of matrices. BLAS
    computes that of two vectors by its `dot` anyway.
    """
    shape, row, column = facts.shape, (1, a[0]), (b[0], 1)
    if len(b) == 2:
        return lambda input, other: input.reshape(row).dot(other).reshape(shape)
    if len(a) == 2:
        return lambda input, other: input.dot(other.reshape(column)).reshape(shape)
    if not facts.one_dtype:
        return lambda input, other: input.reshape(row).dot(other.reshape(column)).reshape(shape)
    empty, dot, dtype = np.empty, np.dot, facts.dtype

    def run(input: Any, other: Any) -> Any:
        out = empty((), dtype)
        dot(input, other, out)
        return out  # NumPy's own result is a scalar

    return run


@gradients("linalg.product.matmul")
def _matmul_gradients(facts: CallFacts) -> tuple[Run | None, ...] | None:
    a, b, multiply = *map(len, facts.shapes), np.multiply  # type: ignore[arg-type]
    if a == b == 1:
        return (multiply, multiply)
    if b == 1:
        return lambda g, other: multiply(g[:, None], other), lambda g, input: input.T.dot(g)
    if a == 1:
        return lambda g, other: other.dot(g), lambda g, input: multiply(input[:, None], g)
    if not _is_matrix_product(facts):
        return None
    return lambda g, other: g.dot(other.T), lambda g, input: input.T.dot(g)
