"""Multi-head attention: input projections, attention of each head, and an output projection."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from ...core.dtypes import DType, bool_
from ...core.errors import ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...tensor.tensor import Tensor
from ..create.creation import zeros, zeros_like
from ..linalg.products import linear
from ..shape.joining import cat
from .attention import scaled_dot_product_attention
from .dropout import dropout
from .softmax import softmax


@composite(homes="functional", known_as="")
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool | int = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the attention of num_heads heads, and the attention weights if need_weights is true.

    Shape   (n, batch, e), (m, batch, e), (m, batch, e) -> (n, batch, e), (batch, n, m); all may
            lack batch. If average_attn_weights is false, the weights are (batch, heads, n, m)
    """
    is_batched = _is_batched(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        query, key, value = in_turn(query, key, value, lambda one: one.unsqueeze(1))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    _require_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    padding = added_mask(key_padding_mask, "key_padding_mask", query.dtype, attn_mask, "attn_mask")
    _require_mask(attn_mask, is_causal)
    is_causal = bool(is_causal) and padding is None and not need_weights
    mask = None if is_causal else added_mask(attn_mask, "attn_mask", query.dtype)
    weights = in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight
    q, k, v = _projected(query, key, value, weights, in_proj_bias, use_separate_proj_weight)
    n, batch, _ = query._layout.shape
    mask = _with_axes(mask, batch, num_heads, n, key._layout.shape[0])
    k, v, further = _extended(k, v, bias_k, bias_v, static_k is None and static_v is None)
    q, k, v = (_by_head(one, num_heads) for one in (q, k, v))
    k = _static(static_k, "static_k", k, batch * num_heads)
    v = _static(static_v, "static_v", v, batch * num_heads)
    if add_zero_attn:
        k, v, further = _with_zero(k), _with_zero(v), further + 1
    mask = _merged(mask, padding, further, batch, k._layout.shape[2])
    parts = _Heads(q, k, v, mask, dropout_p if training else 0.0, is_causal)
    attended, shares = (
        _with_weights(parts, average_attn_weights) if need_weights else (_attended(parts), None)
    )
    found = linear(_joined(attended), out_proj_weight, out_proj_bias)
    if is_batched:
        return found, shares
    return found.squeeze(1), None if shares is None else shares.squeeze(0)


def in_turn(
    query: Tensor, key: Tensor, value: Tensor, do: Callable[[Any], Any]
) -> tuple[Any, Any, Any]:
    """Return do(query), do(key) and do(value); consecutive arguments that are one object share a
    call.
    """
    made = do(query)
    other = made if key is query else do(key)
    return made, other, other if value is key else do(value)


def _require_mask(mask: Tensor | None, is_causal: bool | int) -> None:
    if is_causal and mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )


class _Heads(NamedTuple):
    """The inputs of all heads; q, k and v have the shape (batch, heads, length, head size)."""

    q: Any
    k: Any
    v: Any
    mask: Any
    dropout: float
    is_causal: bool


def _attended(parts: _Heads) -> Any:
    q, k, v, mask, thinned, is_causal = parts
    return scaled_dot_product_attention(q, k, v, mask, thinned, is_causal)


def _with_weights(parts: _Heads, averaged: bool) -> tuple[Any, Any]:
    """Return the attention of all heads, and the attention weights. Both are NaN for a query that
    may not attend to any key.
    """
    q, k, v, mask, thinned, _ = parts
    scores = (q * math.sqrt(1.0 / q._layout.shape[3])) @ k.transpose(-2, -1)
    shares = softmax(scores if mask is None else scores + mask, -1)
    if thinned:
        shares = dropout(shares, thinned)
    return shares @ v, shares.mean(1) if averaged else shares


def added_mask(mask: Any, name: str, dtype: DType, other: Any = None, other_name: str = "") -> Any:
    """Return a mask that can be added to scores, or None if `mask` is None. For a bool mask, the
    result is -inf where the mask is True, and 0 elsewhere.

    Raises  AssertionError for a mask of integers
    Note    warns if the dtypes of `mask` and of another mask, `other`, differ
    """
    if mask is None:
        return None
    given = mask._layout.dtype
    if given is not bool_ and not given.is_floating_point:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other._layout.dtype is not given:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both "
            "instead.",
            stacklevel=4,
        )
    if given is bool_:
        return zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)
    return mask


def _is_batched(query: Any, key: Any, value: Any, padding: Any, mask: Any, num_heads: int) -> bool:
    axes = query.dim()
    if axes not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {axes}-D query tensor"
        )
    word = f"For {'batched (3-D)' if axes == 3 else 'unbatched (2-D)'} `query`, expected"
    if key.dim() != axes or value.dim() != axes:
        raise AssertionError(
            f"{word} `key` and `value` to be {axes}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    if padding is not None and padding.dim() != axes - 1:
        raise AssertionError(
            f"{word} `key_padding_mask` to be `None` or {axes - 1}-D but found {padding.dim()}-D "
            "tensor instead"
        )
    if mask is not None and mask.dim() not in (2, 3):
        raise AssertionError(
            f"{word} `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor instead"
        )
    if axes == 2 and mask is not None and mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(mask.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {mask.shape}"
            )
    return bool(axes == 3)


def _require_sizes(
    query: Tensor, key: Tensor, value: Tensor, expected: int, num_heads: int, separate: bool
) -> None:
    size = query.shape[2]
    if size != expected:
        raise AssertionError(
            f"was expecting embedding dimension of {expected}, but got {short_repr(size)}"
        )
    if size % num_heads:
        raise AssertionError(f"embed_dim {short_repr(size)} not divisible by num_heads {num_heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if key.shape[1] != query.shape[1]:
        raise ShapeError(
            f"multi_head_attention_forward: query has a batch of {query.shape[1]}, key of "
            f"{key.shape[1]}; they are (steps, batch, features), or with batch_first the first two "
            "in turn"
        )


def _projected(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: tuple[Any, ...],
    bias: Tensor | None,
    separate: bool,
) -> tuple[Any, ...]:
    """Return the projections q, k and v of the inputs. One product serves inputs that are the same
    tensor.
    """
    packed, *each = weights
    for name, one in zip("qkv", each, strict=True):
        if separate and one is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    if not separate and packed is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    if not separate and query is key and key is value:
        return tuple(linear(query, packed, bias).chunk(3, -1))
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    if not separate:
        each = list(packed.chunk(3))
    if not separate and key is value:
        size = query._layout.shape[2]
        both = None if bias is None else bias.narrow(0, size, 2 * size)
        k, v = linear(key, packed.narrow(0, size, 2 * size), both).chunk(2, -1)
        return linear(query, each[0], biases[0]), k, v
    given = zip((query, key, value), each, biases, strict=True)
    return tuple([linear(one, weight, b) for one, weight, b in given])


def _by_head(one: Tensor, num_heads: int) -> Any:
    """Convert (n, batch, e) to (batch, heads, n, e / heads)."""
    n, batch, size = one._layout.shape
    return one.reshape(n, batch, num_heads, size // num_heads).permute(1, 2, 0, 3)


def _joined(attended: Tensor) -> Any:
    """Convert (batch, heads, n, e / heads) to (n, batch, e)."""
    batch, heads, n, size = attended._layout.shape
    return attended.permute(2, 0, 1, 3).reshape(n, batch, heads * size)


def _extended(
    k: Tensor, v: Tensor, bias_k: Tensor | None, bias_v: Tensor | None, may: bool
) -> tuple[Any, Any, int]:
    """Return k and v, with the learnt key `bias_k` and value `bias_v` appended if they are given,
    and the number of appended rows.
    """
    if bias_k is None and bias_v is None:
        return k, v, 0
    if bias_v is None:
        raise AssertionError("bias_k is set but bias_v is None")
    if bias_k is None:
        raise AssertionError("bias_v is set but bias_k is None")
    if not may:
        raise AssertionError("bias cannot be added to static key.")
    batch = k._layout.shape[1]
    return cat([k, bias_k.repeat(1, batch, 1)]), cat([v, bias_v.repeat(1, batch, 1)]), 1


def _static(static: Any, name: str, found: Tensor, count: int) -> Any:
    """Return `static`, divided into heads, which replaces projected keys or values; or return
    `found` if `static` is None.
    """
    if static is None:
        return found
    batch, heads, _, size = found._layout.shape
    for axis, expected in ((0, count), (2, size)):
        if static.shape[axis] != expected:
            raise AssertionError(
                f"expecting {name}.size({axis}) of {expected}, but got {static.shape[axis]}"
            )
    return static.reshape(batch, heads, static.shape[1], size)


def _with_zero(one: Tensor) -> Any:
    batch, heads, _, size = one._layout.shape
    layout = one._layout
    return cat([one, zeros((batch, heads, 1, size), dtype=layout.dtype, device=layout.device)], 2)


def _with_axes(mask: Tensor | None, batch: int, num_heads: int, n: int, m: int) -> Any:
    """Return an additive mask with the shape (batch or 1, heads or 1, n, m)."""
    if mask is None:
        return None
    shape = tuple(mask._layout.shape)
    expected = (n, m) if len(shape) == 2 else (batch * num_heads, n, m)
    if shape != expected:
        raise ShapeError(
            f"The shape of the {len(shape)}D attn_mask is {mask.shape}, but should be {expected}."
        )
    if len(shape) == 2:
        return mask.reshape(1, 1, n, m)
    return mask.reshape(batch, num_heads, n, m)


def _merged(mask: Any, padding: Any, further: int, batch: int, m: int) -> Any:
    """Return mask + padding, both extended by zeros for the `further` appended keys."""
    if further:
        mask, padding = (_with_free(one, further) for one in (mask, padding))
    if padding is None:
        return mask
    for axis, expected in ((0, batch), (1, m)):
        if padding.shape[axis] != expected:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{axis}] to be {expected}, but got "
                f"{padding.shape[axis]}"
            )
    padding = padding.reshape(batch, 1, 1, m)
    return padding if mask is None else mask + padding


def _with_free(mask: Tensor | None, further: int) -> Any:
    if mask is None:
        return None
    shape, layout = mask._layout.shape, mask._layout
    free = zeros((*shape[:-1], further), dtype=layout.dtype, device=layout.device)
    return cat([mask, free], -1)
