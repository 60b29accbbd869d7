"""Attention as one op that processes queries in blocks, without a matrix of all weights.

The op saves its result and, for each query, the logarithm of the sum of exp(score). From these, the
op's gradient recomputes the weights block by block. One random number, the seed, determines which
weights dropout drops: see Note [Dropout by counting] in random_numbers/philox.py. Weights that need
no more memory than operands and result, such as the weights of short sequences, are saved for the
gradient. Higher derivatives and tangents are composed of other ops, which store the matrix of all
weights.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.device import CPU, Device
from ...core.dtypes import WORDS, DType, bool_
from ...core.errors import NoKernelError, ShapeError
from ...dispatch.op import Op
from ...dispatch.structured import Plan, structured
from ...dispatch.tangents import has_tangents, is_recorded
from ...graph.modes import modes, tls
from ...interpreters.batch_loop import loop
from ...interpreters.batched_tensor import levels, value_at
from ...interpreters.batching import whole
from ...tensor.broadcast import broadcast_shapes
from ...tensor.tensor import Tensor, from_array
from ..create.creation import ones, zeros
from ..create.random import randint
from .softmax import softmax

# From this number of scores on, the block kernels are faster; the matrix of fewer scores fits into
# the cache. Half types always use the block kernels, which compute scores in float32 on the CPU:
# scores in float16 would overflow at 65504.
_LEAST = 1 << 14


def suits_blocks(
    query: Tensor, key: Tensor, value: Tensor, dropout: float, enable_gqa: bool
) -> bool:
    """Return whether in_blocks supports these operands: their leading axes match, the dtype is real
    and floating, and there are enough scores. Dropout under vmap, where each call draws separately,
    is not supported.
    """
    q, k, v = (one._layout.shape for one in (query, key, value))
    lead = q[:-2]
    dtype = query._layout.dtype
    if not dtype.is_floating_point or (dropout and levels.depth):
        return False
    if not dtype.is_half and math.prod(q[:-1]) * k[-2] < _LEAST:
        return False
    if enable_gqa:
        if len(q) < 3 or len(k) < 3 or not k[-3] or q[-3] % k[-3]:
            return False
        lead = (*lead[:-1], k[-3])
    fits = (k[:-2], v[:-2]) == (lead, lead) and (k[-1], v[-2]) == (q[-1], k[-2])
    return fits and v[-1] > 0


def in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    factor: float,
    is_causal: bool,
    dropout: float,
) -> Tensor:
    """Return the attention of operands with any number of leading axes. The last leading axis, the
    axis of heads, may be shorter in key and value: its length must divide the length in query.
    """
    lead, scores = query._layout.shape[:-2], (*query._layout.shape[:-1], key._layout.shape[-2])
    if mask is not None:
        require_mask(mask, scores)
        # On the CPU, the kernel converts half types to float32, and expects additive masks in
        # float32.
        mask = mask.to(query._layout.dtype.computes_in) if mask._layout.dtype is not bool_ else mask
        mask = _mask_of_heads(mask, lead)
    seed = None
    if dropout:
        seed = randint(1 << 61, (1,), device=query._layout.device)
    heads = _of_heads(query), _of_heads(key), _of_heads(value)
    # dropout is 0 and not 0.0, because a float zero cannot be a cache key: see is_cacheable in
    # dispatch/route.py.
    numbers = factor, is_causal, dropout or 0, not dropout and _keeps_weights(*heads, mask)
    found = attention_in_blocks.public(*heads, mask, seed, *numbers)[0]
    return found if len(lead) == 2 else found.reshape((*lead, *found._layout.shape[-2:]))


def _keeps_weights(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Return whether to save the weights: a gradient may be needed, and the weights need no more
    memory than operands and result. With this limit, memory grows linearly with the length of the
    sequences.

    With saved weights, a forward and backward pass of 4 x 8 x 256 x 64 takes 20.5 ms; with
    recomputed weights, 23.6 ms (one core of an AMD EPYC, Zen 4). On a GPU, weights are not saved,
    because a GPU recomputes weights about as fast as it reads them.
    """
    layout = query._layout
    rows, keys, width = math.prod(layout.shape[:-1]), key._layout.shape[2], value._layout.shape[3]
    given = layout.numel + key._layout.numel + value._layout.numel + rows * width
    wide = layout.dtype.computes_in
    is_small = rows * keys * wide.itemsize <= given * layout.dtype.itemsize
    return is_small and layout.device is CPU and is_recorded((query, key, value, mask))


def _mask_of_heads(mask: Tensor, lead: tuple[int, ...]) -> Any:
    """Return a mask that broadcasts to scores with two leading axes. Axes of length 1 keep this
    length if possible, so that neither the mask nor its gradient is repeated.
    """
    shape = mask._layout.shape
    if len(lead) == 2:
        return mask
    shape = (*[1] * (len(lead) + 2 - len(shape)), *shape)
    *samples, heads = (1, *shape[:-2])[-max(len(lead), 1) :]
    if math.prod(samples) != 1 and tuple(samples) != lead[:-1]:
        samples = list(lead[:-1])
        mask = mask.expand(*samples, heads, *shape[-2:])
    return mask.reshape(math.prod(samples), heads, *shape[-2:])


def _of_heads(x: Tensor) -> Any:
    """Return x with four axes: samples, heads, and the last two axes of x."""
    shape = x._layout.shape
    if len(shape) == 4:
        return x
    heads = shape[-3] if len(shape) > 2 else 1
    return x.reshape((math.prod(shape[:-3]), heads, *shape[-2:]))


def require_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    """Raise ShapeError for a mask that does not broadcast to the shape of the scores."""
    if broadcast_shapes("scaled_dot_product_attention", [shape, mask._layout.shape]) != shape:
        raise ShapeError(
            f"output with shape {list(shape)} doesn't match the broadcast shape of the scores and "
            f"attn_mask: it is {list(mask._layout.shape)}, expected one that broadcasts to them"
        )


def weights_of(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """Return the softmax of masked scores, and zeros for rows in which all scores are masked.

    Softmax alone would give NaN for such a row and for the gradient of the row. For this reason the
    mask is removed from such rows before the softmax, and their weights are set to 0 afterwards.
    """
    layout = scores._layout
    if is_causal:
        # Each query may attend to the first key, so no row is completely masked.
        later = _later(layout.shape[-2], layout.shape[-1], layout.device)
        return softmax(scores.masked_fill(later, -math.inf), -1)
    if mask is None:
        return softmax(scores, -1)
    require_mask(mask, layout.shape)
    if mask._layout.dtype is bool_:
        blind = mask.any(-1, keepdim=True).logical_not()
        mask = mask.log()  # 0 for True, -inf for False
    else:
        blind = (mask == -math.inf).all(-1, keepdim=True)
    # On the CPU, this check does not wait for a device. It rarely finds a fully masked row.
    is_known = layout.device is CPU and blind.__class__ in modes.plain
    if is_known and not blind.any():
        return softmax(scores + mask.to(layout.dtype), -1)
    scores = scores + mask.masked_fill(blind, 0.0).to(layout.dtype)
    return softmax(scores, -1).masked_fill(blind, 0.0)


def _later(rows: int, keys: int, device: Device) -> Any:
    """Return a mask of the keys that come after each query."""
    if device is CPU and rows * keys <= _LEAST and not modes.tracers:
        return _later_of_few(rows, keys)
    return ones((rows, keys), dtype=bool_, device=device).triu(1)


@functools.lru_cache(maxsize=16)
def _later_of_few(rows: int, keys: int) -> Any:
    return from_array(np.triu(np.ones((rows, keys), np.bool_), 1))


@structured(
    "nn.attention.attention",
    fresh=True,
    homes="nowhere",
    known_as="_scaled_dot_product_flash_attention_for_cpu",
)
def attention_in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    factor: float,
    is_causal: bool,
    dropout: float,
    keeps: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dropout(softmax(query @ key.T * factor + mask)) @ value. Further results are the
    logarithms of the sums of exp(score), and the weights that the kernel saves for the gradient, if
    `keeps` is true and there is no dropout. Several neighbouring heads of query share a head of key
    and value.

    Shape   (n, h, l, e), (n, k, s, e), (n, k, s, v), (...), (1,) -> (n, h, l, v), (n, h, l),
            (n, h, l, s) or (0, 0, 0, 0); the mask broadcasts to (n, h, l, s)
    Dtype   floating -> the same; for half types the logarithms and additive masks are float32; seed
            is int64, and None means no dropout
    """


@attention_in_blocks.plan
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    factor: float,
    is_causal: bool,
    dropout: float,
    keeps: bool,
) -> Plan:
    dtype = query._layout.dtype
    if len(query._layout.shape) != 4:
        raise ShapeError(f"attention_in_blocks: query is (n, h, l, e), got {query._layout.shape}")
    if not dtype.is_floating_point:
        raise NoKernelError(f"\"attention_in_blocks\" not implemented for '{WORDS[dtype]}'")
    rows = query._layout.shape[:3]
    shape = (*rows, value._layout.shape[3])
    numbers = factor, is_causal, dropout
    weights = (*rows, key._layout.shape[2]) if keeps and seed is None else (0,) * 4
    more = [(one, dtype.computes_in) for one in (rows, weights)]
    return Plan(shape, dtype, numbers, extra_outputs=tuple(more))


@attention_in_blocks.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    if operands[4] is not None:
        return _thinned_batch(operands, attributes, level)
    n, size = operands[0]._layout.shape[0], levels.sizes[level - 1]
    wide = [o if o is None else o.reshape(_four(o._layout.shape)) for o in operands]
    given = [o if o is None else o.expand(n, *o._layout.shape[1:]) for o in wide]
    # `flatten`, and not `reshape` with -1: without keys, the length for -1 could not be inferred.
    merged = [o if o is None else o.flatten(0, 1) for o in whole(given, level)]
    found = op.general(tuple(merged), attributes)
    pairs = zip(found, (n, n, n if attributes[3] else 0), strict=True)
    return tuple([one.reshape(size, count, *one._layout.shape[1:]) for one, count in pairs])


def _thinned_batch(operands: Any, attributes: Any, level: int) -> tuple[Any, ...]:
    """Return the results of batched calls with dropout, composed of other ops.

    Which weights are dropped depends on the position of a sample within its own call. A kernel that
    got the samples of all calls could not determine this position.
    """
    query, key, value, mask, seed = operands
    factor, is_causal, dropout, _ = attributes
    dtype, size = query._layout.dtype, levels.sizes[level - 1]
    wide, groups = dtype.computes_in, _groups(query, key)
    keys, values = (_repeated(one, groups).to(wide) for one in (key, value))
    scores = query.to(wide) * factor @ keys.transpose(2, 3)
    weights = weights_of(scores, mask, is_causal)
    stays = thinning(seed, weights._layout.shape, wide, dropout)
    found = (weights * stays @ values).to(dtype)
    # The other results are zeros, because only the kernel's gradient uses them. `found` is
    # differentiated through the ops above.
    shapes, device = (query._layout.shape[:3], (0,) * 4), query._layout.device
    others = [zeros((size, *shape), dtype=wide, device=device) for shape in shapes]
    return (value_at(found, level, size=size), *others)


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*[1] * (4 - len(shape)), *shape)


@attention_in_blocks.vjp("query", "key", "value", "mask")
def _(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    factor: float,
    is_causal: bool,
    dropout: float,
    out: Tensor,
    others: tuple[Tensor, ...],
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    numbers = factor, is_causal, dropout
    if tls.grad or has_tangents((g, query, key, value, mask)):
        return _gradient_of_ops(g, query, key, value, mask, seed, *numbers)
    given = g, query, key, value, mask, seed, out, *others
    return attention_gradient.public(*given, *numbers, wanted[3])


def _gradient_of_ops(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    factor: float,
    is_causal: bool,
    dropout: float,
) -> tuple[Any, ...]:
    """Return the gradient composed of other ops, so that it can be differentiated again."""
    groups = _groups(query, key)
    keys, values = _repeated(key, groups), _repeated(value, groups)
    weights = weights_of(query * factor @ keys.transpose(2, 3), mask, is_causal)
    thinned, towards = weights, g @ values.transpose(2, 3)
    if seed is not None:
        stays = thinning(seed, weights._layout.shape, weights._layout.dtype, dropout)
        thinned, towards = weights * stays, towards * stays
    slopes = weights * (towards - (towards * weights).sum(3, True))
    by_mask = None
    if mask is not None and mask._layout.dtype is not bool_:
        by_mask = slopes.to(mask._layout.dtype).sum_to_size(mask._layout.shape)
    slopes = slopes * factor
    by_key, by_value = slopes.transpose(2, 3) @ query, thinned.transpose(2, 3) @ g
    return slopes @ keys, _summed(by_key, groups), _summed(by_value, groups), by_mask


def _groups(query: Tensor, key: Tensor) -> int:
    """Return the number of heads of query that share one head of key."""
    return max(query._layout.shape[1] // max(key._layout.shape[1], 1), 1)


def _repeated(x: Tensor, groups: int) -> Any:
    return x if groups == 1 else x.repeat_interleave(groups, 1)


def _summed(x: Tensor, groups: int) -> Any:
    """Return x summed over the heads of query that share one head of key."""
    n, heads, *last = x._layout.shape
    return x if groups == 1 else x.reshape((n, heads // groups, groups, *last)).sum(2)


@attention_in_blocks.jvp
def _(
    query: Tensor,
    query_t: Tensor | None,
    key: Tensor,
    key_t: Tensor | None,
    value: Tensor,
    value_t: Tensor | None,
    mask: Tensor | None,
    mask_t: Tensor | None,
    seed: Tensor | None,
    factor: float,
    is_causal: bool,
    dropout: float,
) -> Any:
    groups = _groups(query, key)
    keys, values = _repeated(key, groups), _repeated(value, groups)
    weights = weights_of(query * factor @ keys.transpose(2, 3), mask, is_causal)
    stays: Any = 1.0
    if seed is not None:
        stays = thinning(seed, weights._layout.shape, weights._layout.dtype, dropout)
    parts = []
    if query_t is not None:
        parts.append(query_t * factor @ keys.transpose(2, 3))
    if key_t is not None:
        parts.append(query * factor @ _repeated(key_t, groups).transpose(2, 3))
    if mask_t is not None:
        parts.append(mask_t.to(weights._layout.dtype))
    terms = []
    if parts:
        slope = sum(parts[1:], parts[0])
        terms.append(weights * (slope - (weights * slope).sum(3, True)) * stays @ values)
    if value_t is not None:
        terms.append(weights * stays @ _repeated(value_t, groups))
    return sum(terms[1:], terms[0])


@structured(
    "nn.attention.attention_gradient",
    fresh=True,
    homes="nowhere",
    known_as="_scaled_dot_product_flash_attention_backward",
    differentiable=False,
)
def attention_gradient(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    result: Tensor,
    log_sum: Tensor,
    kept: Tensor,
    factor: float,
    is_causal: bool,
    dropout: float,
    is_learnt: bool,
) -> tuple[Tensor, ...]:
    """Return the gradients of attention_in_blocks with respect to query, key, value and the mask.
    The gradient of the mask is empty unless `is_learnt` is true. This op is not differentiable.
    """


@attention_gradient.plan
def _(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    seed: Tensor,
    result: Tensor,
    log_sum: Tensor,
    kept: Tensor,
    factor: float,
    is_causal: bool,
    dropout: float,
    is_learnt: bool,
) -> Plan:
    more = [(one._layout.shape, one._layout.dtype) for one in (key, value)]
    of_mask = (
        (mask._layout.shape, mask._layout.dtype) if is_learnt else ((0,) * 4, log_sum._layout.dtype)
    )
    layout = query._layout
    numbers = factor, is_causal, dropout
    return Plan(layout.shape, layout.dtype, numbers, extra_outputs=(*more, of_mask))


@structured(
    "nn.attention.thinning",
    fresh=True,
    homes="nowhere",
    known_as="native_dropout",
    differentiable=False,
)
def thinning(seed: Tensor, shape: tuple[int, ...], dtype: DType, dropout: float) -> Tensor:
    """Return the factors by which dropout multiplies the weights: 0, or 1 / (1 - dropout).

    Shape   (1,) -> shape, whose last axis is the axis of the keys
    """


@thinning.plan
def _(seed: Tensor, shape: tuple[int, ...], dtype: DType, dropout: float) -> Plan:
    return Plan(tuple(shape), dtype, (dropout,))


@thinning.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    """Draw the factors of each batched call separately, from the seed of that call."""
    return loop(lambda seed: op.general((seed,), attributes), operands, level)
