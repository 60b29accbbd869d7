"""The loops of sparse.py, compiled."""

from __future__ import annotations

from typing import Any

from .compiler import compiled


@compiled("sums of sparse tensors")
def add_rows(values: Any, rows: Any, into: Any) -> None:
    for k in range(len(rows)):
        row = rows[k]
        for i in range(into.shape[1]):
            into[row, i] += values[k, i]


@compiled("products of sparse tensors")
def gather_add(x: Any, starts: Any, places: Any, weights: Any, weighed: Any, into: Any) -> None:
    for i in range(into.shape[0]):
        into[i, :] = 0
        for k in range(starts[i], starts[i + 1]):
            row = x[places[k]]
            if weighed:
                for j in range(into.shape[1]):
                    into[i, j] += weights[k] * row[j]
            else:
                for j in range(into.shape[1]):
                    into[i, j] += row[j]
