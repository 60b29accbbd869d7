"""Attention: rows that may look at nothing, dropout, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.nn import functional as F
from fastdist.nn.attention import SDPBackend, sdpa_kernel

attend = F.scaled_dot_product_attention


@pytest.mark.parametrize("is_bool", [True, False])
def test_a_query_that_may_look_at_nothing_gets_zeros_and_gives_no_gradient(is_bool: bool) -> None:
    allowed = fd.tensor([[True, False], [False, False]])
    mask: Any = allowed if is_bool else fd.zeros(2, 2).masked_fill(~allowed, -math.inf)
    q, k, v = (fd.randn(2, 3, requires_grad=True) for _ in range(3))
    found = attend(q, k, v, mask)
    assert fd.equal(found[0], v[0]) and found[1].tolist() == [0.0, 0.0, 0.0]
    found.sum().backward()
    assert all(np.isfinite(one.grad.numpy()).all() for one in (q, k, v))
    assert q.grad[1].tolist() == [0.0, 0.0, 0.0]
    assert v.grad.tolist() == [[1.0] * 3, [0.0] * 3]


def test_a_mask_that_is_added_gets_a_gradient() -> None:
    mask = fd.zeros(2, 1, requires_grad=True)
    attend(fd.randn(2, 3), fd.randn(4, 3), fd.randn(4, 3), mask).sum().backward()
    # What is added to all of a row alike changes nothing.
    np.testing.assert_allclose(mask.grad.numpy(), 0, atol=1e-6)


def test_dropout_thins_the_weights_out() -> None:
    fd.manual_seed(0)
    value = fd.eye(400)
    found = attend(fd.zeros(1, 3), fd.zeros(400, 3), value, dropout_p=0.25)
    kept = found[found != 0]
    assert 260 < kept.numel() < 340
    np.testing.assert_allclose(kept.numpy(), 1 / 400 / 0.75, rtol=1e-5)


def test_no_keys_give_zeros_and_no_queries_nothing() -> None:
    assert attend(fd.ones(2, 3), fd.ones(0, 3), fd.ones(0, 3)).tolist() == [[0.0] * 3] * 2
    assert attend(fd.ones(0, 3), fd.ones(2, 3), fd.ones(2, 3)).shape == (0, 3)


@pytest.mark.parametrize(
    ("given", "more", "text"),
    [
        (([3], [3], [3]), {}, "Expected query, key, and value to all be  at least 2 dimensional"),
        (
            ([2, 3], [2, 3], [2, 3]),
            {"attn_mask": fd.ones(2, 2, dtype=fd.int64)},
            "Expected attn_mask dtype to be bool or float or to match query dtype",
        ),
        (
            ([2, 3], [2, 3], [2, 3]),
            {"attn_mask": fd.ones(2, 2), "is_causal": True},
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=T",
        ),
        (
            ([2, 3], [2, 3], [2, 3]),
            {"attn_mask": fd.ones(1, 2, 2)},
            r"output with shape \[2, 2\] doesn't match the broadcast shape",
        ),
        (
            ([3, 2, 3], [2, 2, 3], [2, 2, 3]),
            {"enable_gqa": True},
            "Number of heads in key and value must divide the number of heads in",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_words(given: Any, more: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=f"^{text}"):
        attend(*[fd.ones(*shape) for shape in given], **more)


def test_mixed_dtypes_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"^Expected query, key, and value to have the same dty"):
        attend(fd.ones(2, 3), fd.ones(2, 3, dtype=fd.float64), fd.ones(2, 3))


def test_sdpa_kernel_takes_backends_and_nothing_else() -> None:
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]), sdpa_kernel(SDPBackend.MATH):
        assert attend(fd.ones(1, 1), fd.ones(1, 1), fd.ones(1, 1)).item() == 1
    refused = pytest.raises(AssertionError, match="Backend must be an instance of SDPBackend")
    with refused, sdpa_kernel(["math"]):  # type: ignore[list-item]
        pass
