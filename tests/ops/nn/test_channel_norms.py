"""Normalization of channels by one op: running statistics and Nodes are as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.ops.cases import F

X = np.random.default_rng(2).standard_normal((5, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("momentum", [0.1, 1.0])
@pytest.mark.parametrize("shape", [(5, 3, 4), (20, 3)])
def test_running_numbers_move_towards_those_of_a_batch(
    momentum: float, shape: tuple[int, ...]
) -> None:
    x = fd.tensor(X.reshape(shape))
    mean, variance = fd.full((3,), 2.0), fd.full((3,), 3.0)
    F.batch_norm(x, mean, variance, None, None, True, momentum)
    axes = tuple(axis for axis in range(len(shape)) if axis != 1)
    wide = x.numpy().astype(float)
    expected = 2.0 + momentum * (wide.mean(axes) - 2.0)
    np.testing.assert_allclose(mean.numpy(), expected, rtol=1e-5)
    expected = 3.0 + momentum * (wide.var(axes, ddof=1) - 3.0)
    np.testing.assert_allclose(variance.numpy(), expected, rtol=1e-5)
    assert mean._version == variance._version == 1


@pytest.mark.parametrize("shape", [(3, 2), (3, 2, 1), (1, 2, 3), (3000, 2)])
def test_the_running_mean_of_an_infinite_channel_is_infinite(shape: tuple[int, ...]) -> None:
    x = fd.zeros(shape)
    x[0, :] = fd.tensor([fd.inf, -fd.inf]).view(2, *[1] * (x.ndim - 2))
    mean, variance = fd.zeros(2), fd.ones(2)
    F.batch_norm(x, mean, variance, training=True)
    assert mean.tolist() == [fd.inf, -fd.inf]
    assert bool(variance.isnan().all())


def test_running_numbers_that_a_graph_has_saved_are_found_changed() -> None:
    x = fd.tensor(X).requires_grad_()
    mean, variance = fd.zeros(3), fd.ones(3)
    out = F.batch_norm(x, mean, variance)
    product = (out * out).sum() + (x.sum((0, 2)) * mean).sum()
    F.batch_norm(x, mean, variance, training=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_views_of_running_numbers_are_followed_as_well() -> None:
    both = fd.zeros(2, 3)
    F.batch_norm(fd.tensor(X), both[0], both[1], training=True, momentum=1.0)
    np.testing.assert_allclose(both[0].numpy(), X.mean((0, 2)), rtol=1e-4, atol=1e-6)
    assert both._version > 0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: F.group_norm(x, 3), "NativeGroupNormBackward0"),
        (F.instance_norm, "ViewBackward0"),
        (lambda x: F.batch_norm(x, None, None, training=True), "NativeBatchNormBackward0"),
        (lambda x: F.batch_norm(x, fd.zeros(3), fd.ones(3)), "NativeBatchNormBackward0"),
    ],
)
def test_nodes_have_pytorchs_names(call: Any, name: str) -> None:
    assert type(call(fd.tensor(X).requires_grad_()).grad_fn).__name__ == name


@pytest.mark.parametrize("has_weight", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_calls_of_few_numbers_agree_with_the_composites(has_weight: bool, has_bias: bool) -> None:
    # Tensors with other strides are computed by composites.
    other = fd.tensor(np.asfortranarray(X).T).permute(2, 1, 0)
    assert not other.is_contiguous()
    weight, bias = (fd.tensor(X[i, :, 0]) for i in range(2))
    given = weight if has_weight else None, bias if has_bias else None
    for call in (
        lambda x: F.group_norm(x, 1, *given),
        lambda x: F.instance_norm(x, None, None, *given),
        lambda x: F.batch_norm(x, weight, bias.square(), *given),
        lambda x: F.batch_norm(x, None, None, *given, True),
    ):
        found = []
        for x in (fd.tensor(X), other.detach()):
            leaf = x.requires_grad_()
            out = call(leaf)
            found.append([out, *fd.autograd.grad(out.square().sum(), [leaf])])
        for one, expected in zip(*found, strict=True):
            np.testing.assert_allclose(
                one.detach().numpy(), expected.detach().numpy(), rtol=2e-5, atol=1e-5
            )
