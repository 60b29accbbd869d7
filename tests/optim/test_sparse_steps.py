"""With sparse gradients, steps change the used rows as they do with dense gradients."""

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


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("kind", "options"), [(optim.Adagrad, {"eps": 1e-3}), (optim.SparseAdam, {"eps": 1e-3})]
)
@pytest.mark.parametrize("dtype", [fd.float16, fd.float32, fd.float64])
def test_memory_with_gaps_and_small_numbers_are_stepped_alike(
    kind: Any, options: Any, dtype: Any
) -> None:
    found = []
    for is_transposed in (False, True):
        w = fd.arange(10.0, dtype=dtype).reshape(2, 5) / 7
        w = w.t().contiguous() if not is_transposed else w.t()
        w.requires_grad_()
        w.grad = fd.sparse_coo_tensor([[3, 0, 3]], fd.ones(3, 2, dtype=dtype), (5, 2))
        before = w._version
        kind([w], lr=0.1, **options).step()
        assert w._version > before
        found.append(w.detach().to(fd.float64).numpy())
    np.testing.assert_array_equal(*found)
    first = np.arange(10.0).reshape(2, 5).T / 7
    np.testing.assert_allclose(found[0][[1, 2, 4]], first[[1, 2, 4]], rtol=1e-3)
    assert (found[0][[0, 3]] < first[[0, 3]] - 0.05).all()


@pytest.mark.parametrize("kind", [optim.Adagrad, optim.SparseAdam])
def test_entries_of_several_axes_are_stepped(kind: Any) -> None:
    w = fd.ones(2, 3, 2, requires_grad=True)
    w.grad = fd.sparse_coo_tensor([[1, 1], [2, 2]], fd.ones(2, 2), (2, 3, 2))
    kind([w], lr=0.1).step()
    changed = (w != 1).nonzero().tolist()
    assert changed == [[1, 2, 0], [1, 2, 1]]


@pytest.mark.parametrize("kind", [optim.Adagrad, optim.SparseAdam])
def test_an_empty_gradient_changes_nothing(kind: Any) -> None:
    w = fd.ones(4, 2, requires_grad=True)
    w.grad = fd.sparse_coo_tensor(fd.zeros(1, 0), fd.zeros(0, 2), (4, 2))
    kind([w], lr=0.1).step()
    assert (w == 1).all()


def test_lbfgs_takes_sparse_gradients() -> None:
    found = []
    for sparse in (False, True):
        w = (fd.arange(6.0).reshape(3, 2) / 6).requires_grad_()
        optimizer = optim.LBFGS([w], lr=0.1, max_iter=3)

        def loss(w: fd.Tensor = w, optimizer: Any = optimizer, sparse: bool = sparse) -> fd.Tensor:
            optimizer.zero_grad()
            rows = nn.functional.embedding(fd.tensor([0, 2, 0]), w, sparse=sparse)
            out = (rows**2).sum()
            out.backward()
            return out

        optimizer.step(loss)
        found.append(w.detach().numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.parametrize("bad", [False, True])
def test_a_scaler_unscales_the_entries(bad: bool) -> None:
    e = nn.Embedding(4, 2, sparse=True)
    optimizer = optim.SGD(e.parameters(), lr=0.1)
    scaler = fd.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale((e(fd.tensor([1, 1])) * (fd.inf if bad else 1.0)).sum()).backward()
    before = e.weight.detach().clone()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    changed = (e.weight.detach() - before)[1].tolist()
    assert changed == pytest.approx([0.0, 0.0] if bad else [-0.2, -0.2], abs=1e-6)


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adagrad, optim.SparseAdam])
def test_a_table_on_a_device_is_stepped_there(kind: Any) -> None:
    found = []
    for device in ("cpu", "sim:0"):
        w = fd.arange(8.0).reshape(4, 2).to(device).requires_grad_()
        optimizer = kind([w], lr=0.1)
        for rows in ([1, 3, 1], [3]):
            optimizer.zero_grad()
            places = fd.tensor(rows, device=device)
            (nn.functional.embedding(places, w, sparse=True) ** 2).sum().backward()
            assert w.grad is not None and w.grad.is_sparse and w.grad.device == fd.device(device)
            optimizer.step()
        found.append(w.detach().cpu().numpy())
    np.testing.assert_allclose(*found, rtol=1e-6)
