"""Scaled dot product attention and its gradient, on CUDA arrays, a row of a result to a block."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .launch import C_TYPES, Launch, headers_for, int64_fields, launch, text_of
from .layout import element_strides
from .prepared import only_launches


@only_launches
def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any | None,
    out: Any,
    log_sum: Any,
    factor: float,
    is_causal: bool,
) -> None:
    """Write softmax(query @ key.T * factor + mask) @ value into out, and the logarithms of the sums
    of exp(score) beside it.

    query: (n, h, l, e); key: (n, k, s, e); value: (n, k, s, v); mask: (n, h, l, s), of bool or to
    be added; out: (n, h, l, v); log_sum: (n, h, l). A head of key serves h / k heads of query. A
    query that a mask has see nothing gets zeros, and inf for its logarithm.
    """
    launch(plan(query, key, value, mask, out, log_sum, factor, is_causal))


def plan(
    query: Any,
    key: Any,
    value: Any,
    mask: Any | None,
    out: Any,
    log_sum: Any,
    factor: float,
    is_causal: bool,
) -> list[Launch]:
    """Return the launch; none without queries."""
    if not log_sum.size:
        return []
    task = _task(query, key, value, mask, query, is_causal)
    given = query, key, value, query if mask is None else mask, out, log_sum
    arguments = (*given, query.dtype.type(factor), task)
    return [Launch(_source(query, mask), "attention", (log_sum.size, 1), arguments)]


@only_launches
def attention_gradient(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any | None,
    result: Any,
    log_sum: Any,
    out: Any,
    by_key: Any,
    by_value: Any,
    factor: float,
    is_causal: bool,
) -> None:
    """Write the gradient of attention by query into out, those by key and value beside it.

    Shapes as there; g as result.
    """
    outs = out, by_key, by_value
    launch(plan_gradient(g, query, key, value, mask, result, log_sum, outs, factor, is_causal))


def plan_gradient(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any | None,
    result: Any,
    log_sum: Any,
    outs: tuple[Any, Any, Any],
    factor: float,
    is_causal: bool,
) -> list[Launch]:
    """Return the launches; none where there are no rows to make."""
    by_query = outs[0]
    task, source = _task(query, key, value, mask, g, is_causal), _source(query, mask)
    given = g, query, key, value, query if mask is None else mask, result, log_sum
    numbers = query.dtype.type(factor), task
    launches = [
        Launch(source, "by_query", (log_sum.size, 1), (*given, by_query, *numbers)),
        Launch(source, "by_key", (math.prod(key.shape[:3]), 1), (*given, *outs[1:], *numbers)),
    ]
    return [step for step in launches if step.grid[0]]


def _task(query: Any, key: Any, value: Any, mask: Any, g: Any, is_causal: bool) -> Any:
    _, heads, queries, width = query.shape
    _, kept, keys, depth = value.shape
    arrays = query, key, value, query if mask is None else mask, g
    steps = [step for one in arrays for step in element_strides(one)]
    return int64_fields(
        heads, kept, queries, keys, width, depth, is_causal, mask is not None, *steps
    )


def _source(query: Any, mask: Any) -> str:
    return source_of_attention(query.dtype, mask is not None and mask.dtype == np.bool_)


@functools.lru_cache(maxsize=16)
def source_of_attention(dtype: np.dtype[Any], of_bool: bool) -> str:
    """Return the text for a floating dtype, and a mask of bool or of that dtype."""
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Real;
typedef {"bool" if of_bool else "Real"} Mask;
{text_of("attention.cu")}"""
