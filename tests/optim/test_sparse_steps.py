"""Steps with sparse gradients change the touched rows as dense ones would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn, optim

LOOKED_UP = [[1, 1, 0], [1, 1, 1], [1, 3, 2], [3, 1, 1]]


def trained(kind: Any, sparse: bool, **options: Any) -> tuple[np.ndarray, Any]:
    e = nn.Embedding(5, 3, sparse=sparse)
    with fd.no_grad():
        e.weight.copy_(fd.arange(15.0).reshape(5, 3) / 7 - 1)
    optimizer = kind(e.parameters(), lr=0.1, **options)
    for rows in LOOKED_UP:
        optimizer.zero_grad()
        (e(fd.tensor(rows)) ** 2).sum().backward()
        optimizer.step()
    return e.weight.detach().numpy(), optimizer


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (optim.SGD, {}),
        (optim.SGD, {"maximize": True}),
        (optim.SGD, {"momentum": 0.9}),
        (optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (optim.SGD, {"momentum": 0.9, "dampening": 0.3}),
        (optim.Adagrad, {}),
        (optim.Adagrad, {"maximize": True, "lr_decay": 0.1, "initial_accumulator_value": 0.2}),
    ],
)
def test_sparse_steps_are_the_dense_ones(kind: Any, options: Any) -> None:
    found = [trained(kind, sparse, **options)[0] for sparse in (False, True)]
    np.testing.assert_allclose(found[1], found[0], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_adam_moves_the_means_of_touched_rows_alone(maximize: bool) -> None:
    p = np.arange(15.0).reshape(5, 3) / 7 - 1
    mean, square = np.zeros_like(p), np.zeros_like(p)
    for step, rows in enumerate(LOOKED_UP, 1):
        g = np.zeros_like(p)
        np.add.at(g, rows, 2 * p[rows])
        g = -g if maximize else g
        for row in set(rows):
            mean[row] = 0.9 * mean[row] + 0.1 * g[row]
            square[row] = 0.99 * square[row] + 0.01 * g[row] ** 2
            rate = 0.1 * np.sqrt(1 - 0.99**step) / (1 - 0.9**step)
            p[row] -= rate * mean[row] / (np.sqrt(square[row]) + 1e-8)
    found, optimizer = trained(optim.SparseAdam, True, betas=(0.9, 0.99), maximize=maximize)
    np.testing.assert_allclose(found, p, rtol=1e-5, atol=1e-6)
    (state,) = optimizer.state.values()
    assert state["step"] == 4 and not state["exp_avg"][4].any()


def test_momentum_keeps_one_entry_for_each_row() -> None:
    _, optimizer = trained(optim.SGD, True, momentum=0.9)
    (state,) = optimizer.state.values()
    buffer = state["momentum_buffer"]
    assert buffer.is_sparse and buffer.is_coalesced() and buffer._nnz() == 4


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (optim.SGD, {"weight_decay": 0.1}, r"add\(sparse, dense\) is not supported"),
        (optim.SGD, {"fused": True}, "`_fused_sgd` does not support sparse gradients"),
        (optim.Adagrad, {"weight_decay": 0.1}, "weight_decay option is not compatible with sparse"),
        (optim.Adagrad, {"fused": True}, "`fused` does not support sparse grad or complex param"),
        (optim.Adam, {}, "Adam does not support sparse gradients, please consider SparseAdam"),
        (optim.AdamW, {}, "Adam does not support sparse gradients, please consider SparseAdam"),
        *[
            (kind, {}, f"{kind.__name__} does not support sparse gradients")
            for kind in (
                optim.RMSprop, optim.Adadelta, optim.Adamax, optim.NAdam, optim.RAdam, optim.ASGD,
                optim.Rprop, optim.Muon, optim.Adafactor,
            )
        ],
    ],
)  # fmt: skip
def test_methods_without_sparse_steps_refuse(kind: Any, options: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=f"^{text}"):
        trained(kind, True, **options)
