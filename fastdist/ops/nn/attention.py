"""Scaled dot product attention."""

from __future__ import annotations

import math
from typing import Any

from ...core.dtypes import WORDS, bool_, float32
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...tensor.broadcast import broadcast_shapes
from ...tensor.tensor import Tensor
from ..create.creation import ones
from ..pointwise.masked import where
from ..unrecorded_rows import may_reshape, reshape_result, reshaped_operand
from .attention_blocks import in_blocks, suits_blocks, weights_of
from .dropout import dropout


@composite(homes="functional")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return softmax(query @ key.T * scale + mask) @ value over the last two axes.

    In a bool mask, True allows attention; a mask of another dtype is added to the scores. The
    result is 0 for a query that may not attend to any key. With enable_gqa, several heads of query
    share one head of key and value. A mask may be combined with is_causal where PyTorch's fused
    kernel supports this combination; a query then attends to the keys that both allow.

    Raises  ValueError for a dropout_p outside of 0 ... 1; RuntimeError for shapes that do not fit,
            and for a mask with is_causal where the fused kernel does not support the combination
    Note    memory grows with n + m, except for a mask and its gradient: see attention_blocks

    Args:
        query: Queries, of shape (..., n, d).
        key: Keys, of shape (..., m, d).
        value: Values, of shape (..., m, e); the result is of shape (..., n, e).
        attn_mask: A mask that broadcasts to (..., n, m), or None.
        dropout_p: The probability with which an attention weight is dropped. It applies outside of
            training, too.
        is_causal: Whether query i attends only to keys up to i.
        scale: The factor of the scores; 1 / sqrt(d) if None.
        enable_gqa: Whether several heads of query share one head of key and value.

    Example:
        >>> q = torch.zeros(1, 2, 4)
        >>> F.scaled_dot_product_attention(q, q, q).shape
        fastdist.Size([1, 2, 4])
    """
    _require_fitting(query, key, value, attn_mask)
    _require_shapes(query, key, value, enable_gqa)
    if is_causal and attn_mask is not None:
        _require_fused(query, key, value, attn_mask, dropout_p, enable_gqa)
        attn_mask = _causal(attn_mask, query._layout.shape[-2], key._layout.shape[-2])
        is_causal = False
    # If d is 0, all scores are 0, whatever the factor.
    length = query._layout.shape[-1] or 1
    factor = 1.0 / math.sqrt(length) if scale is None else float(scale)
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if suits_blocks(query, key, value, dropout_p, enable_gqa):
        given = query, key, value, attn_mask
        return in_blocks(*given, factor, is_causal, float(dropout_p))
    if enable_gqa and query._layout.shape[:-2] != key._layout.shape[:-2]:
        if not dropout_p and key._layout.shape[:-2] == value._layout.shape[:-2]:
            return _of_shared_heads(query * factor, key, value, attn_mask, is_causal)
        key, value = (_shared_heads(query, one) for one in (key, value))
    weights = weights_of(query * factor @ key.transpose(-2, -1), attn_mask, is_causal)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return weights @ value


def _require_fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout_p: float, enable_gqa: bool
) -> None:
    """Raise RuntimeError unless PyTorch's fused kernel supports these operands.

    Only the fused kernel supports a mask together with is_causal.
    """
    q, k, v = (one._layout.shape for one in (query, key, value))
    of_heads = len(q) == 4 and k == v and q[-1] == k[-1] and query._layout.dtype.is_floating_point
    alike = q[0] == k[0] if enable_gqa else q[:2] == k[:2]
    fits = len(mask._layout.shape) in (2, 4) and mask._edge is None
    if not (of_heads and alike and fits and not dropout_p):
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True, but for operands of four axes that are alike, without dropout, and "
            "a mask of two or four axes that needs no gradient: put the causal mask into "
            "attn_mask"
        )


def _causal(mask: Tensor, rows: int, columns: int) -> Any:
    """Return `mask`, changed so that no query may attend to keys that come after it."""
    earlier: Any = ones(rows, columns, dtype=bool_, device=mask._layout.device).tril()
    return mask & earlier if mask._layout.dtype is bool_ else where(earlier, mask, -math.inf)


def _require_fitting(query: Any, key: Any, value: Any, mask: Any) -> None:
    q, k, v = query._layout, key._layout, value._layout
    is_usual = mask is None and q.dtype is k.dtype is v.dtype and q.dtype.may_have_gradient
    if is_usual and min(len(q.shape), len(k.shape), len(v.shape)) > 1:
        return
    layouts = [q, k, v]
    if any(len(one.shape) < 2 for one in layouts):
        axes = [len(one.shape) for one in layouts]
        raise ShapeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{axes[0]} key.dim: {axes[1]} and value.dim: {axes[2]} instead."
        )
    dtype = layouts[0].dtype
    if not dtype.may_have_gradient:
        raise DTypeError(
            f"expected scalar type Float but found {WORDS[dtype]}: scaled_dot_product_attention "
            "takes floating queries, keys and values"
        )
    if any(one.dtype is not dtype for one in layouts):
        raise DTypeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{q.dtype.name} key.dtype: {k.dtype.name} and value.dtype: {v.dtype.name} instead."
        )
    if mask is not None and mask._layout.dtype not in (bool_, float32, dtype):
        raise DTypeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {mask._layout.dtype.name} and  query.dtype: {dtype.name} instead."
        )


def _require_shapes(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    """Raise ShapeError if query @ key.T or the product with value does not exist for these shapes.
    With enable_gqa, the numbers of heads are not checked here but in _shared_heads.
    """
    q, k, v = query._layout.shape, key._layout.shape, value._layout.shape
    if q == k == v:
        return
    if q[-1] != k[-1]:
        raise ShapeError(
            f"scaled_dot_product_attention: query is {q} and key is {k}; their last axes must have "
            f"the same size, {q[-1]} != {k[-1]}"
        )
    if k[-2] != v[-2]:
        raise ShapeError(
            f"scaled_dot_product_attention: key is {k} and value is {v}; their second last axes "
            f"must have the same size, {k[-2]} != {v[-2]}"
        )
    if not enable_gqa and not q[:-2] == k[:-2] == v[:-2]:
        broadcast_shapes("scaled_dot_product_attention", [q[:-2], k[:-2], v[:-2]])


def _shared_heads(query: Tensor, one: Tensor) -> Any:
    """Return key or value with its heads, the third last axis, repeated to as many as in query."""
    groups = _require_groups(query, one)
    return one if groups == 1 else one.repeat_interleave(groups, -3)


def _require_groups(query: Tensor, one: Tensor) -> int:
    """Return the number of heads of query that share one head of key or value.

    Raises  ShapeError if the number of heads of query is not a multiple of the other number
    """
    heads, mine = query.size(-3), one.size(-3)
    if not mine or heads % mine:
        if heads == mine:
            return 1
        raise ShapeError(
            "Number of heads in key and value must divide the number of heads in query: they are "
            f"{mine} and {heads}"
        )
    return int(heads // mine)


def _of_shared_heads(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool
) -> Tensor:
    """Return the attention of scaled queries if several heads of query share a head of key and
    value. The queries of such heads become rows of one matrix, so that key and value are not
    repeated.
    """
    groups = _require_groups(query, key)
    *lead, heads, rows, width = query._layout.shape
    mine, keys = heads // groups, key._layout.shape[-2]
    together = (*lead, mine, groups * rows)
    if key._layout.shape[:-3] != tuple(lead):
        key, value = (_shared_heads(query, one) for one in (key, value))
        return weights_of(query @ key.transpose(-2, -1), mask, is_causal) @ value
    is_plain = mask is None and not is_causal
    if is_plain and may_reshape(query, (key, value)):
        scores = reshaped_operand(query, (*together, width)) @ key.transpose(-2, -1)
        found = weights_of(scores, None, False) @ value
        return reshape_result(found, (*lead, heads, rows, value._layout.shape[-1]))
    scores = query.reshape(*together, width) @ key.transpose(-2, -1)
    if is_plain:
        weights = weights_of(scores, None, False)
    else:
        apart = scores.reshape(*lead, heads, rows, keys)
        weights = weights_of(apart, mask, is_causal).reshape(*together, keys)
    return (weights @ value).reshape(*lead, heads, rows, value._layout.shape[-1])
