"""Batch, instance and group normalisation as modules, and their running statistics."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import fastdist
from fastdist import nn
from fastdist.autograd import forward_ad
from fastdist.nn import functional as F

X = np.random.default_rng(0).standard_normal((6, 3, 4)) * 2 + 1


def test_running_numbers_move_by_momentum_towards_the_batch_s() -> None:
    layer = nn.BatchNorm1d(3, momentum=0.25, dtype=fastdist.float64)
    layer(fastdist.tensor(X))
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.25 * X.mean((0, 2)), rtol=1e-12)
    expected = 0.75 + 0.25 * X.var((0, 2), ddof=1)
    np.testing.assert_allclose(layer.running_var.numpy(), expected, rtol=1e-12)
    assert layer.num_batches_tracked.item() == 1


def test_without_momentum_running_numbers_are_means_over_all_batches() -> None:
    layer = nn.BatchNorm1d(3, momentum=None, dtype=fastdist.float64)
    for batch in (X, X + 3, 2 * X):
        layer(fastdist.tensor(batch))
    means = [batch.mean((0, 2)) for batch in (X, X + 3, 2 * X)]
    np.testing.assert_allclose(layer.running_mean.numpy(), np.mean(means, 0), rtol=1e-12)


def test_evaluation_takes_the_running_numbers_and_leaves_them_alone() -> None:
    layer = nn.BatchNorm1d(3, eps=0.5, dtype=fastdist.float64)
    layer(fastdist.tensor(X))
    layer.eval()
    before = {name: entry.clone() for name, entry in layer.state_dict().items()}
    out = layer(fastdist.tensor(X + 5)).detach().numpy()
    mean, variance = (layer.state_dict()[f"running_{k}"].numpy()[:, None] for k in ("mean", "var"))
    np.testing.assert_allclose(out, (X + 5 - mean) / np.sqrt(variance + 0.5), rtol=1e-12)
    assert all(entry.equal(layer.state_dict()[name]) for name, entry in before.items())


def test_what_follows_no_batches_takes_each_one_s_own_numbers() -> None:
    layer = nn.BatchNorm1d(3, track_running_stats=False, dtype=fastdist.float64).eval()
    assert list(layer.state_dict()) == ["weight", "bias"]
    out = layer(fastdist.tensor(X)).detach().numpy()
    np.testing.assert_allclose(out.mean((0, 2)), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (nn.BatchNorm1d(3), (3,), r"expected 2D or 3D input \(got 1D input\)"),
        (nn.BatchNorm2d(3), (1, 3, 4), r"expected 4D input \(got 3D input\)"),
        (nn.BatchNorm3d(3), (1, 3, 4), r"expected 5D input \(got 3D input\)"),
        (nn.InstanceNorm1d(3), (3,), r"expected 2D or 3D input \(got 1D input\)"),
        (nn.BatchNorm1d(3), (1, 3), "Expected more than 1 value per channel when training"),
        (nn.InstanceNorm1d(3), (2, 3, 1), "Expected more than 1 spatial element when training"),
        (nn.BatchNorm1d(3), (2, 4), "running_mean should contain 4 elements not 3"),
        (
            nn.InstanceNorm1d(3, affine=True),
            (2, 4, 5),
            r"expected input's size at dim=1 to match num_features \(3\), but got: 4.",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    layer: nn.Module, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        layer(fastdist.ones(shape))


def test_running_numbers_are_wanted_together_and_in_evaluation() -> None:
    x, row = fastdist.ones(2, 3), fastdist.zeros(3)
    with pytest.raises(RuntimeError, match="running_mean must be defined in evaluation mode"):
        F.batch_norm(x, None, None)
    with pytest.raises(ValueError, match="running_mean and running_var must either both be None"):
        F.batch_norm(x, row, None, training=True)
    with pytest.raises(RuntimeError, match="Expected running_mean and running_var to be defined"):
        F.instance_norm(x, use_input_stats=False)
    with pytest.raises(NotImplementedError, match='"batch_norm" not implemented for int64'):
        F.batch_norm(x.long(), row, row)


def test_an_empty_batch_leaves_the_running_numbers_as_they_are() -> None:
    layer = nn.BatchNorm1d(3)
    assert layer(fastdist.zeros(0, 3)).shape == (0, 3)
    assert layer.running_mean.tolist() == [0.0] * 3 and layer.running_var.tolist() == [1.0] * 3


def test_an_instance_may_come_without_a_batch() -> None:
    layer = nn.InstanceNorm1d(3)
    x = fastdist.tensor(X)
    np.testing.assert_allclose(layer(x[0]).numpy(), layer(x)[0].numpy(), rtol=1e-12)


def test_an_instance_norm_that_follows_takes_the_means_over_samples() -> None:
    layer = nn.InstanceNorm1d(3, track_running_stats=True, dtype=fastdist.float64)
    layer(fastdist.tensor(X))
    expected = 0.9 + 0.1 * X.var(2, ddof=1).mean(0)
    np.testing.assert_allclose(layer.running_var.numpy(), expected, rtol=1e-12)
    layer.eval()
    out = layer(fastdist.tensor(X)).numpy()
    mean = layer.running_mean.numpy()[:, None]
    np.testing.assert_allclose(out, (X - mean) / np.sqrt(expected[:, None] + 1e-5), rtol=1e-12)


def test_an_instance_norm_without_parameters_warns_of_other_channels() -> None:
    with pytest.warns(UserWarning, match="input's size at dim=1 does not match num_features"):
        nn.InstanceNorm1d(2)(fastdist.tensor(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.InstanceNorm1d(3)(fastdist.tensor(X))


def test_half_batches_keep_their_dtype_and_follow_in_float32() -> None:
    layer = nn.BatchNorm1d(3)
    out = layer(fastdist.tensor(X).half())
    assert out.dtype is fastdist.float16 and layer.running_mean.dtype is fastdist.float32
    out.sum().backward()
    assert layer.weight.grad.dtype is fastdist.float32


def test_synchronised_batch_norm_is_batch_norm_in_one_process() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm1d(3).eval()))
    weight = model[0].weight
    found = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert [type(m).__name__ for m in (found[0], found[1][0])] == ["SyncBatchNorm"] * 2
    assert found[0].weight is weight and not found[1][0].training
    plain = nn.BatchNorm1d(3)(fastdist.tensor(X).float())
    assert nn.SyncBatchNorm(3)(fastdist.tensor(X).float()).equal(plain)
    with pytest.raises(ValueError, match=r"expected at least 2D input \(got 1D input\)"):
        found[0](fastdist.ones(3))
    with pytest.raises(ValueError, match="number of input channels should be non-zero"):
        found[0](fastdist.ones(3, 0))


def test_groups_must_divide_channels() -> None:
    with pytest.raises(ValueError, match=r"num_channels \(4\) must be divisible by num_groups"):
        nn.GroupNorm(3, 4)
    with pytest.raises(RuntimeError, match="Expected number of channels in input to be divisible"):
        F.group_norm(fastdist.ones(2, 4), 3)


def test_cross_map_normalisation_never_leaves_the_first_channel_behind() -> None:
    x = np.arange(1.0, 13.0).reshape(1, 6, 1, 2)
    found = nn.CrossMapLRN2d(3, alpha=0.3, beta=0.5, k=2.0)(fastdist.tensor(x)).numpy()
    for c in range(6):
        near = {*range(max(c - 1, 0), min(c + 2, 6))} | ({0} if c >= 2 else set())
        total = (x[:, sorted(near)] ** 2).sum(1)
        np.testing.assert_allclose(found[:, c], x[:, c] / np.sqrt(2.0 + 0.1 * total), rtol=1e-12)
    with pytest.raises(ValueError, match="CrossMapLRN2d: Expected input to be 4D, got 3D instead"):
        nn.CrossMapLRN2d(3)(fastdist.ones(1, 2, 3))
    with pytest.raises(ValueError, match="CrossMapLRN2d: size should be greater than zero, got 0"):
        nn.CrossMapLRN2d(0)(fastdist.ones(1, 2, 3, 3))


def test_local_response_norm_takes_any_size_from_1_on() -> None:
    x = fastdist.arange(24.0).reshape(2, 3, 4)
    wide = nn.functional.local_response_norm(x, 2**40, alpha=2.0**40)
    assert wide.allclose(nn.functional.local_response_norm(x, 5, alpha=5.0))
    for size in (0, -3):
        with pytest.raises(RuntimeError, match="size should be greater than zero, got"):
            nn.functional.local_response_norm(x, size)


NORMS: list[Callable[[fastdist.Tensor], fastdist.Tensor]] = [
    lambda x: F.layer_norm(x, (4,)),
    lambda x: F.batch_norm(x, None, None, training=True),
]


@pytest.mark.parametrize("norm", NORMS)
def test_tangents_go_through_gradients_without_a_second_graph(
    norm: Callable[[fastdist.Tensor], fastdist.Tensor],
) -> None:
    t = np.random.default_rng(1).standard_normal(X.shape)

    def gradient(x: fastdist.Tensor) -> fastdist.Tensor:
        x = x.requires_grad_()
        (found,) = fastdist.autograd.grad(norm(x).pow(3).sum(), x)
        return found

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(fastdist.tensor(X), fastdist.tensor(t))
        tangent = forward_ad.unpack_dual(gradient(dual)).tangent
    assert tangent is not None
    step = 1e-5
    ends = [gradient(fastdist.tensor(X + sign * step * t)).numpy() for sign in (1, -1)]
    np.testing.assert_allclose(
        tangent.numpy(), (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-7
    )
