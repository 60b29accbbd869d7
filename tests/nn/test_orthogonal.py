"""Weights with orthonormal rows or columns, by each orthogonal map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn
from fastdist.nn.utils import parametrizations

SHAPES = [(4, 4), (5, 3), (3, 5), (2, 4, 3)]


def gram(weight: Any) -> Any:
    rows, columns = weight.shape[-2:]
    return weight @ weight.mT if rows < columns else weight.mT @ weight


def orthogonal(shape: tuple[int, ...], kind: str | None) -> Any:
    module: Any = nn.Module()
    module.weight = nn.Parameter(fd.randn(shape, dtype=fd.float64))
    return parametrizations.orthogonal(module, orthogonal_map=kind)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder", None])
def test_a_weight_stays_orthogonal_while_it_learns(
    kind: str | None, shape: tuple[int, ...]
) -> None:
    fd.manual_seed(0)
    module = orthogonal(shape, kind)
    target = fd.randn(shape, dtype=fd.float64)
    optimizer = fd.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        loss = (module.weight * target).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        one = fd.eye(min(shape[-2:]), dtype=fd.float64)
        assert fd.allclose(gram(module.weight), one.expand(*shape[:-2], *one.shape), atol=1e-9)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_an_orthogonal_weight_may_be_assigned(kind: str) -> None:
    module = orthogonal((3, 3), kind)
    given = fd.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]], dtype=fd.float64)
    module.weight = given
    assert fd.allclose(module.weight, given, atol=1e-12)
    with pytest.raises(ValueError, match="Expected a matrix or batch of matrices of shape"):
        module.weight = given[:2]


@pytest.mark.parametrize("angle", [0.1, 3.0, 40.0])
def test_the_exponential_of_a_turn_is_the_turn(angle: float) -> None:
    module = orthogonal((2, 2), "matrix_exp")
    module.parametrizations.weight[0].base = fd.eye(2, dtype=fd.float64)
    with fd.no_grad():
        module.parametrizations.weight.original.copy_(fd.tensor([[0.0, 0.0], [angle, 0.0]]))
    turn = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    assert np.allclose(module.weight.detach().to_numpy(), turn, atol=1e-5 * 1e-5)
    pulled = fd.autograd.grad(module.weight[0, 0], module.parametrizations.weight.original)[0]
    assert pulled[1, 0].item() == pytest.approx(-np.sin(angle))


@pytest.mark.parametrize("shape", SHAPES)
def test_reflections_start_from_an_orthonormal_weight_without_a_base(
    shape: tuple[int, ...],
) -> None:
    module: Any = nn.Module()
    drawn = fd.randn(*shape[:-2], max(shape[-2:]), min(shape[-2:]), dtype=fd.float64)
    given = fd.linalg.qr(drawn).Q
    given = given.mT if shape[-2] < shape[-1] else given
    module.weight = nn.Parameter(given.clone())
    parametrizations.orthogonal(module, "weight", "householder", use_trivialization=False)
    assert fd.allclose(module.weight, given, atol=1e-12)
    assert list(module.state_dict()) == ["parametrizations.weight.original"]


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley"])
def test_a_map_of_skew_matrices_takes_no_weight_without_a_base(kind: str) -> None:
    layer = nn.Linear(2, 2)
    parametrizations.orthogonal(layer, orthogonal_map=kind, use_trivialization=False)
    assert fd.allclose(gram(layer.weight), fd.eye(2), atol=1e-6)
    with pytest.raises(NotImplementedError, match="It is not possible to assign to the matrix"):
        layer.weight = fd.eye(2)


def test_what_cannot_be_made_orthogonal_says_so() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match='orthogonal_map has to be one of "matrix_exp"'):
        parametrizations.orthogonal(layer, orthogonal_map="qr")
    with pytest.raises(ValueError, match=r"Expected a matrix or batch of matrices\. Got a tensor"):
        parametrizations.orthogonal(layer, "bias")
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'w'"):
        parametrizations.orthogonal(layer, "w")
