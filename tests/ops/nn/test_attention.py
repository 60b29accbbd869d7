"""Attention: fully masked rows, dropout, and rejected arguments."""

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
from fastdist.ops.nn import attention_blocks

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
    # Adding a constant to a whole row does not change the result.
    np.testing.assert_allclose(mask.grad.numpy(), 0, atol=1e-6)


@pytest.mark.parametrize(
    ("heads", "shape", "dtype"),
    [
        (2, (2, 2, 5, 7, 4), fd.float32),
        (2, (2, 2, 7, 5, 4), fd.float64),
        (4, (1, 2, 70, 90, 8), fd.float32),  # in blocks; query heads share key heads
        (2, (1, 2, 9, 9, 4), fd.bfloat16),
    ],
)
@pytest.mark.parametrize("is_bool", [True, False])
def test_a_mask_beside_is_causal_allows_what_both_do(
    heads: int, shape: tuple[int, ...], dtype: fd.dtype, is_bool: bool
) -> None:
    samples, few, rows, columns, length = shape
    fd.manual_seed(3)
    q = fd.randn(samples, heads, rows, length).to(dtype).requires_grad_()
    k, v = (fd.randn(samples, few, columns, length).to(dtype).requires_grad_() for _ in "kv")
    allowed = fd.rand(samples, 1, rows, columns) > 0.3
    allowed[..., 0, 0] = False  # the first query attends to no key
    earlier = fd.ones(rows, columns, dtype=fd.bool).tril()
    if is_bool:
        mask, both = allowed, allowed & earlier
    else:
        mask = fd.randn(rows, columns).to(dtype)
        both = mask.masked_fill(~earlier, -math.inf)
    more = {"enable_gqa": heads > few}
    found = attend(q, k, v, mask, is_causal=True, **more)
    wanted = attend(q, k, v, both, **more)
    assert fd.equal(found, wanted)
    if is_bool:
        assert found[0, :, 0].abs().sum() == 0
    grads = fd.autograd.grad((found * found).sum(), (q, k, v))
    by_mask = fd.autograd.grad((wanted * wanted).sum(), (q, k, v))
    assert all(fd.equal(a, b) for a, b in zip(grads, by_mask, strict=True))


def test_a_mask_of_keys_beside_is_causal_is_what_the_sums_say() -> None:
    q, k, v = (fd.randn(1, 1, 3, 2, dtype=fd.float64) for _ in range(3))
    found = attend(q, k, v, fd.tensor([[True, False, True]]), is_causal=True)[0, 0]
    weights = (q @ k.mT / math.sqrt(2))[0, 0].exp()
    last = (weights[2, 0] * v[0, 0, 0] + weights[2, 2] * v[0, 0, 2]) / (weights[2, ::2].sum())
    np.testing.assert_allclose(found.numpy(), fd.stack([v[0, 0, 0]] * 2 + [last]).numpy())


@pytest.mark.parametrize("which", ["dropout", "a mask with a gradient", "three axes", "widths"])
def test_a_mask_beside_is_causal_is_refused_where_pytorchs_fused_kernel_is_not_asked(
    which: str,
) -> None:
    q: Any = fd.randn(1, 2, 3, 4)
    mask = fd.zeros(3, 3, requires_grad=which == "a mask with a gradient")
    value = q[..., :2] if which == "widths" else q
    given = (q, q, value) if which != "three axes" else (q[0], q[0], q[0])
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set when is_causal"):
        attend(*given, mask, dropout_p=0.5 * (which == "dropout"), is_causal=True)


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


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16, fd.float32, fd.float64])
@pytest.mark.parametrize("more", [{}, {"is_causal": True}, {"attn_mask": fd.ones(3, 3) == 1}])
def test_queries_without_entries_weigh_all_keys_alike(more: Any, dtype: Any) -> None:
    # Once, attention uses whole matrices; 100 times as many rows make it use blocks.
    for times in (1, 100):
        q = fd.ones(1, 3 * times, 0, dtype=dtype, requires_grad=True)
        v = fd.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], dtype=dtype, requires_grad=True)
        rows = v.repeat_interleave(times, 0)[None]
        mask = more.get("attn_mask")
        given = more if mask is None else {"attn_mask": mask.repeat(times, times)}
        found = attend(q, q, rows, **given)
        found.sum().backward()
        last = [2.0, 3.0]  # the mean of v, as this row attends to all keys
        np.testing.assert_allclose(found[0, -1].float().tolist(), last, rtol=2e-2)
        first = [0.0, 1.0] if "is_causal" in more else last
        np.testing.assert_allclose(found[0, 0].float().tolist(), first, rtol=2e-2)
        assert q.grad.shape == q.shape and v.grad.shape == v.shape
        assert attend(q, q, q, **given).shape == q.shape


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


@pytest.mark.parametrize("length", [5, 200])
def test_shapes_that_do_not_fit_are_told_as_the_caller_knows_them(length: int) -> None:
    q, k = fd.ones(2, length, 4), fd.ones(2, length + 1, 4)
    name = "^scaled_dot_product_attention: "
    with pytest.raises(RuntimeError, match=name + "query is .* and key is .* last axes .*, 4 != 3"):
        attend(q, k[..., :3], k)
    with pytest.raises(RuntimeError, match=name + "key is .* and value is .* second last axes"):
        attend(q, k, q)
    lead = (
        r"The size of tensor a \(2\) must match the size of tensor b \(3\) .* dimension 0: scaled_"
    )
    with pytest.raises(RuntimeError, match=lead):
        attend(q, k, fd.ones(3, length + 1, 4))
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Long: scaled_dot"):
        attend(q.long(), k.long(), k.long())


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
    """Return attention's result, its gradients, and the gradients of these gradients."""
    rng = np.random.default_rng(0)
    given = [fd.tensor(rng.standard_normal(s)).requires_grad_() for s in (query, key, value)]
    out = attend(*given, mask, **more)
    plain = fd.autograd.grad(out.square().sum(), given, retain_graph=True)
    slopes = fd.autograd.grad(out.square().sum(), given, create_graph=True)
    second = fd.autograd.grad(sum(one.square().sum() for one in slopes), given)
    return [one.detach().numpy() for one in (out, *plain, *slopes, *second)]


@pytest.mark.one_in(4)
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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [fd.float32, fd.bfloat16])
def test_long_sequences_are_trained_without_a_matrix_of_weights(dtype: Any, dropout: float) -> None:
    def train() -> Any:
        given = [fd.zeros(1, 1, 4096, 16, dtype=dtype, requires_grad=True) for _ in range(3)]
        out = attend(*given, is_causal=True, dropout_p=dropout)
        out.sum().backward()
        return out

    train()  # compile and load before measuring
    tracemalloc.start()
    try:
        assert type(train().grad_fn).__name__ == "ScaledDotProductFlashAttentionForCpuBackward0"
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A matrix of weights would take 64 MiB.
    assert most < 16 << 20, most


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("length", "least", "most"), [(128, 2.9, 3.3), (256, 4.9, 5.3), (257, 1, 1.3), (1024, 1, 1.3)]
)
def test_weights_are_kept_for_the_gradient_where_they_are_no_more_than_operands_and_result(
    length: int, least: float, most: float
) -> None:
    given = [fd.zeros(1, 4, length, 64, requires_grad=True) for _ in range(3)]
    size_bytes = given[0].numel() * 4
    attend(*given).sum().backward()  # compile and load before measuring
    tracemalloc.start()
    try:
        with fd.no_grad():
            out = attend(*given)
        result = tracemalloc.get_traced_memory()[0]
        out = attend(*given)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert out.requires_grad and result < 1.3 * size_bytes
    assert least * size_bytes < held < most * size_bytes


@pytest.mark.parametrize("lead", [(), (1,), (1, 1)])
def test_the_gradient_of_a_mask_is_made_once_and_kept(lead: tuple[int, ...]) -> None:
    given = [fd.zeros(1, 1, 1024, 16) for _ in range(3)]
    mask = fd.zeros(*lead, 1024, 1024, requires_grad=True)
    attend(*given, mask).sum().backward()  # compile and load before measuring
    mask.grad = None
    tracemalloc.start()
    try:
        attend(*given, mask).sum().backward()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The gradient takes 4 MiB, and each of two blocks takes half a MiB.
    assert mask.grad is not None and mask.grad.shape == mask.shape
    assert most < 6 << 20, most


def test_vmap_and_masks_of_fewer_axes_than_scores() -> None:
    q, k, v = (fd.randn(3, 2, 2, 100, 8) for _ in range(3))
    for mask in (fd.randn(100, 100), fd.randn(2, 1, 100)):
        found = fd.func.vmap(lambda a, b, c, m=mask: attend(a, b, c, m))(q, k, v)
        apart = [attend(*one, mask) for one in zip(q, k, v, strict=True)]
        assert fd.allclose(found, fd.stack(apart), atol=1e-5)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("shape", [None, (150, 150), (2, 1, 1, 150), (1, 3, 150, 1), (150,)])
def test_dropout_and_masks_that_learn_go_in_blocks(shape: Any, dropout: float) -> None:
    rng = np.random.default_rng(0)
    shapes = [(2, 3, 150, 8)] * 3 if shape is None else [(2, 3, 150, 8)] * 3 + [shape]
    given = [fd.tensor(rng.standard_normal(one)).requires_grad_() for one in shapes]
    fd.manual_seed(5)
    out = attend(*given, dropout_p=dropout)
    assert type(out.grad_fn).__name__ == "ScaledDotProductFlashAttentionForCpuBackward0"
    slope = fd.tensor(rng.standard_normal(out.shape))
    found = [out, *fd.autograd.grad(out, given, slope)]
    fd.manual_seed(5)
    stays: Any = 1.0
    if dropout:
        seed = fd.randint(1 << 61, (1,))
        stays = attention_blocks.thinning.public(seed, (2, 3, 150, 150), fd.float64, dropout)
        assert abs((stays == 0).double().mean().item() - dropout) < 0.01
    scores = given[0] @ given[1].mT / math.sqrt(8) + (0 if shape is None else given[3])
    plain = (scores.softmax(-1) * stays) @ given[2]
    expected = [plain, *fd.autograd.grad(plain, given, slope)]
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one.detach(), other.detach(), 1e-9, 1e-9)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [(5, 5), (2, 1, 1, 5), (1, 2, 5, 1)])
def test_derivatives_of_dropped_weights_are_those_of_differences(
    shape: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_blocks, "_LEAST", 0)
    rng = np.random.default_rng(0)
    given = [fd.tensor(rng.standard_normal(one)) for one in [(2, 2, 5, 3)] * 3 + [shape]]

    def dropped(*given: Any) -> Any:
        fd.manual_seed(3)
        return attend(*given, dropout_p=0.3)

    leaves = tuple(one.requires_grad_() for one in given)
    assert fd.autograd.gradcheck(dropped, leaves, check_forward_ad=True)
    assert fd.autograd.gradgradcheck(dropped, leaves)


def test_dropout_of_a_sure_thing_leaves_nothing_and_of_more_is_refused() -> None:
    q = fd.randn(1, 2, 150, 8, requires_grad=True)
    out = attend(q, q, q, dropout_p=1.0)
    out.sum().backward()
    assert (out == 0).all() and q.grad is not None and (q.grad == 0).all()
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got"):
        attend(q, q, q, dropout_p=1.5)


def test_each_of_a_batch_under_vmap_draws_of_its_own() -> None:
    q = fd.zeros(3, 200, 8)
    v = fd.eye(200)

    def attended(q: Any) -> Any:
        return attend(q, q, v, dropout_p=0.5)

    found = fd.func.vmap(attended, randomness="different")(q)
    assert not fd.equal(found[0], found[1])


def test_layers_in_training_drop_weights_in_blocks() -> None:
    layer = fd.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
    heads = fd.nn.MultiheadAttention(16, 2, dropout=0.1, batch_first=True)
    x = fd.randn(2, 160, 16)
    with fd.profiler.profile() as told:
        layer(x).sum().backward()
        heads(x, x, x, need_weights=False)[0].sum().backward()
    names = [one.key for one in told.key_averages()]
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in names
    assert "aten::_scaled_dot_product_flash_attention_backward" in names
    assert not any("softmax" in name for name in names), names


def test_tangents_go_through_blocks_with_a_mask_that_has_none() -> None:
    rng = np.random.default_rng(0)
    query, tangent, key, value = (fd.tensor(rng.standard_normal((150, 8))) for _ in range(4))
    eps = 1e-6
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(query, tangent)
        found = forward_ad.unpack_dual(attend(dual, key, value, is_causal=True)).tangent
    ends = [attend(query + by * tangent, key, value, is_causal=True) for by in (eps, -eps)]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / (2 * eps), 1e-6, 1e-8)


@pytest.mark.parametrize("dtype", [fd.float32, fd.bfloat16])
@pytest.mark.parametrize(
    "sizes", [(1, 3, 0, 8, 4), (0, 3, 2, 8, 4), (1, 0, 2, 8, 4), (1, 3, 2, 0, 4)]
)
def test_calls_of_a_batch_may_lack_heads_rows_keys_or_width(dtype: Any, sizes: Any) -> None:
    heads, rows, keys, width, out = sizes
    query = fd.zeros(2, 1, heads, rows, width, dtype=dtype, requires_grad=True)
    key = fd.zeros(2, 1, heads, keys, width, dtype=dtype)
    value = fd.ones(2, 1, heads, keys, out, dtype=dtype)
    found = fd.vmap(F.scaled_dot_product_attention)(query, key, value)
    assert found.shape == (2, 1, heads, rows, out)
    assert bool((found == float(keys > 0)).all())
    found.sum().backward()
    assert query.grad is not None and query.grad.shape == query.shape


@pytest.mark.parametrize("more", ["nothing", "mask", "bias", "causal", "blind"])
def test_few_heads_of_key_give_what_repeated_ones_give(more: str) -> None:
    """Few scores are not computed in blocks; queries with a common key head form one matrix."""
    fd.manual_seed(0)
    q, k, v = (
        fd.randn(2, heads, n, 3, dtype=fd.float64).transpose(1, 2).contiguous().transpose(1, 2)
        for heads, n in ((6, 4), (2, 5), (2, 5))
    )
    for one in (q, k, v):
        one.requires_grad_()
    mask: Any = None
    if more in ("mask", "blind"):
        mask = fd.rand(2, 1, 4, 5) > 0.3
        mask[:, :, 1, :] = more == "mask"
    elif more == "bias":
        mask = fd.randn(6, 4, 5, dtype=fd.float64)
    many = [one.repeat_interleave(3, 1) for one in (k, v)]
    found = attend(q, k, v, mask, is_causal=more == "causal", enable_gqa=True)
    wanted = attend(q, *many, mask, is_causal=more == "causal")
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
    assert more != "blind" or (found[:, :, 1] == 0).all()
    g = fd.randn_like(found)
    for one, other in zip(
        fd.autograd.grad(found, (q, k, v), g),
        fd.autograd.grad(wanted, (q, k, v), g),
        strict=True,
    ):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-10, atol=1e-14)


def test_a_key_that_is_nan_hides_behind_a_causal_query() -> None:
    key = fd.ones(3, 2)
    key[2] = math.nan
    for _ in range(2):  # the second call reuses the causal mask
        found = attend(fd.ones(3, 2), key, fd.ones(3, 2), is_causal=True)
        assert found[:2].isfinite().all() and found[2].isnan().all()
