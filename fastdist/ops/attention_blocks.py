"""Attention as one op: a block of queries after another, without a matrix of all weights.

The op keeps its result and, of each query, the logarithm of the sum of exp(score), out of which its
gradient makes the weights of a block anew. Higher derivatives and tangents are made of other ops,
which do keep such matrices.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.dtypes import WORDS, bool_
from ..core.errors import NoKernelError, ShapeError
from ..dispatch.batching import whole
from ..dispatch.broadcast import broadcast_shapes
from ..dispatch.structured import Plan, structured
from ..dispatch.tangents import levels_of
from ..graph.modes import modes, tls
from ..tensor.tensor import Tensor
from .creation import full, zeros_like
from .softmax import softmax

# Scores from which on blocks are worth their kernels; of fewer, matrices are in cache as well. Half
# types always go in blocks, whose scores are float32 on the CPU: float16 ends at 65504.
_LEAST = 1 << 14


def suits_blocks(query: Any, key: Any, value: Any, mask: Any, enable_gqa: bool) -> bool:
    """Return whether in_blocks is made for operands that fit: of one lead, of a real floating
    dtype, with a mask that is a constant, and enough of them.
    """
    q, k, v = (one.facts.shape for one in (query, key, value))
    lead = q[:-2]
    dtype = query.facts.dtype
    if not dtype.is_floating_point:
        return False
    if not dtype.is_half and math.prod(q[:-1]) * k[-2] < _LEAST:
        return False
    if enable_gqa:
        if len(q) < 3 or len(k) < 3 or not k[-3] or q[-3] % k[-3]:
            return False
        lead = (*lead[:-1], k[-3])
    if (k[:-2], v[:-2]) != (lead, lead) or (k[-1], v[-2]) != (q[-1], k[-2]) or not v[-1]:
        return False
    if mask is None:
        return True
    return not mask.requires_grad and not (modes.special and levels_of((mask,)))


def in_blocks(query: Any, key: Any, value: Any, mask: Any, factor: float, is_causal: bool) -> Any:
    """Return the attention of operands with any number of leading axes, of which key's last may be
    a divisor of query's.
    """
    lead, scores = query.facts.shape[:-2], (*query.facts.shape[:-1], key.facts.shape[-2])
    if mask is not None:
        require_mask(mask, scores)
        # Before it is spread over heads, for the CPU computes half types from copies.
        mask = mask.to(query.facts.dtype.computes_in) if mask.facts.dtype is not bool_ else mask
        mask = _of_heads(mask.expand(scores))
    found = attention_in_blocks.public(
        *map(_of_heads, (query, key, value)), mask, factor, is_causal
    )[0]
    return found if len(lead) == 2 else found.reshape((*lead, *found.facts.shape[-2:]))


def _of_heads(x: Any) -> Any:
    """Return x with four axes: samples, heads, and its last two."""
    shape = x.facts.shape
    if len(shape) == 4:
        return x
    heads = shape[-3] if len(shape) > 2 else 1
    return x.reshape((math.prod(shape[:-3]), heads, *shape[-2:]))


def require_mask(mask: Any, shape: tuple[int, ...]) -> None:
    """Raise for a mask that does not broadcast to the scores' shape."""
    if broadcast_shapes("scaled_dot_product_attention", [shape, mask.facts.shape]) != shape:
        raise ShapeError(
            f"output with shape {list(shape)} doesn't match the broadcast shape of the scores and "
            f"attn_mask: it is {list(mask.facts.shape)}, expected one that broadcasts to them"
        )


def weights_of(scores: Any, mask: Any, is_causal: bool) -> Any:
    """Return softmax of masked scores, zeros where a row is wholly masked.

    There softmax alone would give NaN, and so would its gradient: what masks such a row is taken
    away before, and its weights after.
    """
    shape, device = scores.facts.shape, scores.facts.device
    if is_causal:
        # Each query may look at the first key, so no row is wholly masked.
        dtype = scores.facts.dtype
        later: Any = full(shape[-2:], -math.inf, dtype=dtype, device=device).triu(1)
        return softmax.public(scores + later, -1)
    if mask is None:
        return softmax.public(scores, -1)
    require_mask(mask, shape)
    if mask.facts.dtype is bool_:
        dtype = scores.facts.dtype
        mask = zeros_like(mask, dtype=dtype).masked_fill(mask.logical_not(), -math.inf)
    blind = (mask == -math.inf).all(-1, keepdim=True)
    scores = scores + mask.masked_fill(blind, 0.0).to(scores.facts.dtype)
    return softmax.public(scores, -1).masked_fill(blind, 0.0)


@structured(
    "attention.attention",
    has_out=False,
    fresh=True,
    node_name="ScaledDotProductFlashAttentionForCpuBackward0",
    homes="nowhere",
)
def attention_in_blocks(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, factor: float, is_causal: bool
) -> Tensor:
    """Return softmax(query @ key.T * factor + mask) @ value, and the logarithms of the sums of
    exp(score); a head of key and value serves several neighbours of query.

    Shape   (n, h, l, e), (n, k, s, e), (n, k, s, v), (n, h, l, s) -> (n, h, l, v), (n, h, l)
    Dtype   floating -> the same; logarithms of half types, and their masks' numbers, in float32
    """


@attention_in_blocks.plan
def _(query: Tensor, key: Tensor, value: Tensor, mask: Any, factor: float, is_causal: bool) -> Plan:
    dtype = query.facts.dtype
    if len(query.facts.shape) != 4:
        raise ShapeError(f"attention_in_blocks: query is (n, h, l, e), got {query.facts.shape}")
    if not dtype.is_floating_point:
        raise NoKernelError(f"\"attention_in_blocks\" not implemented for '{WORDS[dtype]}'")
    rows = query.facts.shape[:3]
    shape = (*rows, value.facts.shape[3])
    return Plan(shape, dtype, (factor, is_causal), extra_outputs=((rows, dtype.computes_in),))


@attention_in_blocks.batches
def _(op: Any, operands: Any, attributes: Any, level: int) -> Any:
    n = operands[0].facts.shape[0]
    given = [o if o is None else o.expand(n, *o.facts.shape[1:]) for o in operands]
    merged = [o if o is None else o.reshape(-1, *o.facts.shape[2:]) for o in whole(given, level)]
    found = op.general(tuple(merged), attributes)
    return tuple([one.reshape(-1, n, *one.facts.shape[1:]) for one in found])


@attention_in_blocks.vjp("query", "key", "value")
def _(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    factor: float,
    is_causal: bool,
    out: Any,
    others: Any,
) -> tuple[Any, ...]:
    if tls.grad or (modes.special and levels_of((g, query, key, value))):
        return _gradient_of_ops(g, query, key, value, mask, factor, is_causal)
    given = g, query, key, value, mask, out, *others
    return attention_gradient.public(*given, factor, is_causal)  # type: ignore[no-any-return]


def _gradient_of_ops(
    g: Any, query: Any, key: Any, value: Any, mask: Any, factor: float, is_causal: bool
) -> tuple[Any, ...]:
    """Return the gradient, made of ops, to be differentiated again."""
    groups = _groups(query, key)
    keys, values = _repeated(key, groups), _repeated(value, groups)
    weights = weights_of(query * factor @ keys.transpose(2, 3), mask, is_causal)
    towards = g @ values.transpose(2, 3)
    slopes = weights * (towards - (towards * weights).sum(3, True)) * factor
    by_key, by_value = slopes.transpose(2, 3) @ query, weights.transpose(2, 3) @ g
    return slopes @ keys, _summed(by_key, groups), _summed(by_value, groups)


def _groups(query: Tensor, key: Tensor) -> int:
    """Return how many heads of query share one of key."""
    return max(query.facts.shape[1] // max(key.facts.shape[1], 1), 1)


def _repeated(x: Any, groups: int) -> Any:
    return x if groups == 1 else x.repeat_interleave(groups, 1)


def _summed(x: Any, groups: int) -> Any:
    """Return the sums over heads of query that share one of key."""
    n, heads, *last = x.facts.shape
    return x if groups == 1 else x.reshape((n, heads // groups, groups, *last)).sum(2)


@attention_in_blocks.jvp
def _(
    query: Any,
    query_t: Any,
    key: Any,
    key_t: Any,
    value: Any,
    value_t: Any,
    mask: Any,
    factor: float,
    is_causal: bool,
) -> Any:
    groups = _groups(query, key)
    keys, values = _repeated(key, groups), _repeated(value, groups)
    weights = weights_of(query * factor @ keys.transpose(2, 3), mask, is_causal)
    parts = []
    if query_t is not None:
        parts.append(query_t * factor @ keys.transpose(2, 3))
    if key_t is not None:
        parts.append(query * factor @ _repeated(key_t, groups).transpose(2, 3))
    terms = []
    if parts:
        slope = sum(parts[1:], parts[0])
        terms.append(weights * (slope - (weights * slope).sum(3, True)) @ values)
    if value_t is not None:
        terms.append(weights @ _repeated(value_t, groups))
    return sum(terms[1:], terms[0])


@structured("attention.attention_gradient", has_out=False, fresh=True, homes="nowhere")
def attention_gradient(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    result: Tensor,
    log_sum: Tensor,
    factor: float,
    is_causal: bool,
) -> Tensor:
    """Return the gradients of attention_in_blocks by query, key and value; not differentiable
    itself.
    """


@attention_gradient.plan
def _(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    result: Tensor,
    log_sum: Tensor,
    factor: float,
    is_causal: bool,
) -> Plan:
    more = tuple([(one.facts.shape, one.facts.dtype) for one in (key, value)])
    layout = query.facts
    return Plan(layout.shape, layout.dtype, (factor, is_causal), extra_outputs=more)
