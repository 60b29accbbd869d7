"""Rows looked up by number, and numbers as rows of zeros and a one."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import int64
from ..core.errors import DTypeError, ShapeError
from ..dispatch.composite import composite
from ..dispatch.op import OPS
from ..tensor.tensor import Tensor
from .creation import arange
from .indexing import require_index, select_slices


@composite(function=False, method=False, functional=True)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of weight at input; that of padding_idx gets no gradient.

    Shape   (...), (n, d) -> (..., d)
    """
    if len(weight.layout.shape) != 2:
        raise ShapeError("'weight' must be 2-D")
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NotImplementedError(
            "embedding: max_norm, scale_grad_by_freq and sparse are not there"
        )
    require_index("embedding", input)
    if len(input.layout.shape) == 1:
        found = select_slices.public(weight, input, 0)
    else:
        rows = select_slices.public(weight, input.reshape(-1), 0)
        found = rows.reshape((*input.layout.shape, weight.layout.shape[1]))
    if padding_idx is None:
        return found  # type: ignore[no-any-return]
    n = weight.layout.shape[0]
    if not -n <= padding_idx < n:
        raise ValueError(f"Padding_idx must be within num_embeddings: {padding_idx} of {n}")
    padded: Any = (input == padding_idx % n).unsqueeze(-1)
    return OPS["where"].public(padded, found.detach(), found)  # type: ignore[no-any-return]


@composite(function=False, method=False, functional=True)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return zeros with a 1 at each number, along a new last axis; as many as the largest needs."""
    if tensor.layout.dtype is not int64:
        raise DTypeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.layout.numel:
        if int(tensor.min()) < 0:
            raise RuntimeError("Class values must be non-negative.")
        most = int(tensor.max()) + 1
        if num_classes == -1:
            num_classes = most
        elif num_classes < most:
            raise RuntimeError("Class values must be smaller than num_classes.")
    elif num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    classes: Any = arange(num_classes, device=tensor.layout.device)
    return (tensor.unsqueeze(-1) == classes).to(int64)  # type: ignore[no-any-return]
