"""Attention: rows that may look at nothing, dropout, and what is refused."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.autograd import forward_ad
from fastdist.nn import functional as F
from fastdist.nn.attention import SDPBackend, sdpa_kernel
from fastdist.ops import attention_blocks

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


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((30, 8), (31, 8), (31, 4), {}),
    ((3, 10, 8), (3, 20, 8), (3, 20, 8), {"scale": 0.7}),
    ((2, 4, 16, 8), (2, 2, 8, 8), (2, 2, 8, 4), {"enable_gqa": True}),
    ((2, 1, 3, 6, 8), (2, 1, 3, 9, 8), (2, 1, 3, 9, 4), {}),
]


def results(query: Any, key: Any, value: Any, mask: Any, more: Any) -> list[Any]:
    """Return what attention makes of numbers, its gradients, and gradients of those."""
    rng = np.random.default_rng(0)
    given = [fd.tensor(rng.standard_normal(s)).requires_grad_() for s in (query, key, value)]
    out = attend(*given, mask, **more)
    plain = fd.autograd.grad(out.square().sum(), given, retain_graph=True)
    slopes = fd.autograd.grad(out.square().sum(), given, create_graph=True)
    second = fd.autograd.grad(sum(one.square().sum() for one in slopes), given)
    return [one.detach().numpy() for one in (out, *plain, *slopes, *second)]


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "added"])
@pytest.mark.parametrize(("query", "key", "value", "more"), SHAPES)
def test_blocks_and_matrices_agree(
    query: Any, key: Any, value: Any, more: Any, mask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sees = np.random.default_rng(1).random((query[-2], key[-2])) < 0.7
    sees[1] = False
    masks = {"bool": fd.tensor(sees), "added": fd.tensor(np.where(sees, 0.5, -np.inf))}
    more = {**more, "is_causal": mask == "causal"}
    monkeypatch.setattr(attention_blocks, "_LEAST", 10**9)
    expected = results(query, key, value, masks.get(mask), more)
    monkeypatch.setattr(attention_blocks, "_LEAST", 0)
    for one, other in zip(results(query, key, value, masks.get(mask), more), expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-9, 1e-9)


@pytest.mark.parametrize(("dtype", "tolerance"), [(fd.float16, 2e-3), (fd.bfloat16, 2e-2)])
@pytest.mark.parametrize("mask", ["none", "bool", "added"])
def test_half_types_are_as_exact_as_they_can_be(dtype: Any, tolerance: float, mask: str) -> None:
    rng = np.random.default_rng(0)
    given = [fd.tensor(rng.standard_normal((1, 2, 150, 8))).to(dtype) for _ in range(3)]
    slope = fd.tensor(rng.standard_normal((1, 2, 150, 8))).to(dtype)
    sees = fd.tensor(rng.random((150, 150)) < 0.7)
    masks = {"bool": sees, "added": sees.to(dtype)}

    def found(by: Any) -> list[Any]:
        leaves = [one.to(by).requires_grad_() for one in given]
        given_mask = masks.get(mask)
        if given_mask is not None and given_mask.dtype is not fd.bool:
            given_mask = given_mask.to(by)
        out = attend(*leaves, given_mask)
        assert type(out.grad_fn).__name__ == "ScaledDotProductFlashAttentionForCpuBackward0"
        return [out, *fd.autograd.grad(out, leaves, slope.to(by))]

    for ours, exact in zip(found(dtype), found(fd.float64), strict=True):
        assert ours.dtype is dtype
        np.testing.assert_allclose(ours.detach().double(), exact.detach(), tolerance, tolerance)


def test_scores_of_float16_may_be_larger_than_it() -> None:
    q = fd.full((1, 1, 2, 64), 100.0, dtype=fd.float16, requires_grad=True)
    out = attend(q, q, q)
    out.sum().backward()
    assert (out == 100).all() and q.grad is not None and np.isfinite(q.grad.numpy()).all()
    x = fd.ones(1, 1, 2, 8, dtype=fd.float16)
    assert (attend(x, x, x, fd.full((2, 2), -1e5)) == 1).all()


@pytest.mark.parametrize("dtype", [fd.float32, fd.bfloat16])
def test_long_sequences_are_trained_without_a_matrix_of_weights(dtype: Any) -> None:
    def train() -> Any:
        given = [fd.zeros(1, 1, 4096, 16, dtype=dtype, requires_grad=True) for _ in range(3)]
        out = attend(*given, is_causal=True)
        out.sum().backward()
        return out

    train()  # what is compiled and loaded is no part of it
    tracemalloc.start()
    try:
        assert type(train().grad_fn).__name__ == "ScaledDotProductFlashAttentionForCpuBackward0"
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A matrix of the weights has 64 MiB.
    assert most < 16 << 20, most


@pytest.mark.parametrize(
    "more", [{"dropout_p": 0.1}, {"attn_mask": "wants"}], ids=["dropout", "a mask that learns"]
)
def test_what_blocks_are_not_made_for_is_made_of_ops(more: dict[str, Any]) -> None:
    given = [fd.ones(200, 8, requires_grad=True) for _ in range(3)]
    if "attn_mask" in more:
        more = {"attn_mask": fd.zeros(200, 200, requires_grad=True)}
    out = attend(*given, **more)
    assert type(out.grad_fn).__name__ in ("MmBackward0", "MatmulBackward0"), out.grad_fn
    out.sum().backward()
    assert all(one.grad is not None for one in (*given, *more.values()) if fd.is_tensor(one))


def test_tangents_go_through_blocks_with_a_mask_that_has_none() -> None:
    rng = np.random.default_rng(0)
    query, tangent, key, value = (fd.tensor(rng.standard_normal((150, 8))) for _ in range(4))
    eps = 1e-6
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(query, tangent)
        found = forward_ad.unpack_dual(attend(dual, key, value, is_causal=True)).tangent
    ends = [attend(query + by * tangent, key, value, is_causal=True) for by in (eps, -eps)]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / (2 * eps), 1e-6, 1e-8)
