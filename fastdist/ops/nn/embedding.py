"""Embeddings: rows of a matrix looked up by index."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import int64
from ...core.errors import ShapeError
from ...dispatch.composite import composite
from ...dispatch.tangents import is_recorded
from ...graph.modes import no_grad
from ...interpreters.batched_tensor import Batched, batched, value_at
from ...tensor.tensor import Tensor
from ..create.creation import full, zeros
from ..index.indexing import require_index, select_slices
from ..pointwise.masked import where
from ..sparse.conversion import sparse_of
from ..sparse.coordinates import recorded
from ..unrecorded_rows import may_reshape, reshape_result, reshaped_operand


@composite(homes="functional", node="embedding")
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of weight with the indices `input`. The row `padding_idx` gets no gradient.

    Shape   (...), (n, d) -> (..., d)
    Note    with max_norm, rows that are looked up and have a larger norm are scaled down, in weight
            itself. With scale_grad_by_freq, the gradient of a row is divided by the number of times
            that the row's index occurs in `input`
    """
    if len(weight._layout.shape) != 2:
        raise ShapeError("'weight' must be 2-D")
    require_index("embedding", input)
    padding = padding_of(padding_idx, weight._layout.shape[0])
    if max_norm is not None:
        bound_norms(weight, input, max_norm, norm_type)
    if sparse and has_gradient(weight):
        return sparse_rows(weight, input, padding, scale_grad_by_freq)
    found = _rows(weight, input, padding)
    if scale_grad_by_freq:
        divide_gradient(found, frequency(input, weight))
    return found  # type: ignore[no-any-return]


def has_gradient(weight: Tensor) -> bool:
    """Return whether a look-up in weight must be recorded."""
    return weight._edge is not None


def sparse_rows(
    weight: Tensor, input: Tensor, padding: int | None, by_frequency: bool = False
) -> Tensor:
    """Return the rows of weight with the indices `input`; weight gets a sparse gradient."""
    if isinstance(input, Batched):  # rows are looked up for all batched calls together
        return batched(sparse_rows(weight, input.value, padding, by_frequency), input.level)
    shape, is_flat = weight._layout.shape, len(input._layout.shape) == 1
    places = input.to(int64) if is_flat else input.detach().reshape(-1).to(int64)
    with no_grad():
        found = select_slices(weight, places, 0)
        if not is_flat:
            found = found.reshape((*input._layout.shape, shape[1]))

    def gradients(g: Tensor) -> tuple[Any]:
        if by_frequency:
            raise RuntimeError(
                "embedding_backward: scale_grad_by_freq not supported with sparse gradients; leave "
                "sparse=False"
            )
        touched, values = places, g.reshape(places._layout.shape[0], shape[1])
        if padding is not None:
            kept = (places != padding).nonzero().reshape(-1)
            touched, values = touched.index_select(0, kept), values.index_select(0, kept)
        return (sparse_of(touched.reshape(1, -1), values.contiguous(), shape),)

    return recorded(
        found,
        "EmbeddingBackward0",
        (weight,),
        gradients,
        lambda t, _: embedding(input, t[0]),
        (input,),
    )


def padding_of(padding_idx: int | None, n: int) -> int | None:
    if padding_idx is None:
        return None
    if not -n <= padding_idx < n:
        raise AssertionError(
            f"Padding_idx must be within num_embeddings: it is {padding_idx}, of {n} rows"
        )
    return padding_idx % n


def _rows(weight: Tensor, input: Tensor, padding: int | None) -> Any:
    if len(input._layout.shape) == 1:
        found = select_slices(weight, input, 0)
    elif may_reshape(input, (weight,)):
        places = reshaped_operand(input, (input._layout.numel,))
        found = select_slices(weight, places, 0)
        reshape_result(found, (*input._layout.shape, weight._layout.shape[1]))
    else:
        rows = select_slices(weight, input.reshape(-1), 0)
        found = rows.reshape((*input._layout.shape, weight._layout.shape[1]))
    if padding is None:
        return found
    padded: Any = (input == padding).unsqueeze(-1)
    return where(padded, found.detach(), found)


def bound_norms(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale down, in place, the rows of weight that input refers to and whose norm is above
    max_norm.
    """
    places = input.detach().reshape(-1)
    with no_grad():
        rows = select_slices(weight.detach(), places, 0)
        lengths = rows.norm(norm_type, 1, keepdim=True)
        # A row that occurs twice in input is written twice, with the same values.
        shorter = where(lengths > max_norm, rows * (max_norm / (lengths + 1e-7)), rows)
        weight.index_copy_(0, places, shorter)


def frequency(input: Tensor, weight: Tensor) -> Any:
    """Return, for each entry of input, the number of entries of input that equal it. The result has
    an additional last axis of length 1.
    """
    places, layout = input.detach().reshape(-1), weight._layout
    n = layout.shape[0]
    ones = full(places._layout.shape, 1.0, dtype=layout.dtype, device=layout.device)
    counts = zeros(n, dtype=layout.dtype, device=layout.device).index_add(0, places, ones)
    return select_slices(counts, places, 0).reshape((*input._layout.shape, 1))


def divide_gradient(found: Any, by: Any) -> None:
    """Have the backward pass divide the gradient of `found`, if there is one, by `by`."""
    if not is_recorded((found,)):
        return
    while isinstance(found, Batched):  # the graph belongs to the value that the batch contains
        value = found.value
        found, by = value, value_at(by, found.level, size=value._layout.shape[0])
    found.register_hook(lambda g: g / by)
