"""Cross entropy of rows, with and without the values that its gradient needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.nn.functional as F


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, 1), (3, 5), (90, 70), (70, 1000), (3, 40_000)])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy_is_the_same_where_nothing_is_kept_for_its_gradient(
    reduction: str, shape: tuple[int, int], dtype: Any
) -> None:
    x = np.random.default_rng(2).standard_normal(shape).astype(dtype)
    target = fd.arange(shape[0]) % shape[1]
    x[0, 0], x[-1, -1] = np.inf, np.nan
    for strided in (x, np.repeat(x, 2, 1)[:, ::2]):
        leaf = fd.from_numpy(strided)
        alone = F.cross_entropy(leaf, target, reduction=reduction)
        kept = F.cross_entropy(leaf.requires_grad_(), target, reduction=reduction)
        assert kept.requires_grad and not alone.requires_grad
        assert alone.numpy().tobytes() == kept.detach().numpy().tobytes()
        with fd.no_grad():
            assert not F.cross_entropy(leaf, target).requires_grad


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
@pytest.mark.parametrize("shape", [(0,), (2, 0), (2, 0, 3)])
def test_without_classes_each_sample_must_be_ignored(loss: Any, shape: tuple[int, ...]) -> None:
    x = fd.zeros(shape, requires_grad=True)
    target = fd.full((*shape[:1], *shape[2:]) if len(shape) > 1 else (), 7)
    values = {
        reduction: loss(x, target, ignore_index=7, reduction=reduction)
        for reduction in ("sum", "none", "mean")
    }
    assert values["sum"].item() == 0.0
    assert values["none"].shape == target.shape and not values["none"].any()
    assert values["mean"].isnan().item()
    for value in values.values():
        value.sum().backward()
    assert x.grad is not None and x.grad.shape == shape
    with pytest.raises(IndexError, match=r"Target 7 is out of bounds\. There are 0 classes"):
        loss(x, target)
