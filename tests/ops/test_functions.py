"""Further functions: results, errors, and the order of equal elements."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.errors import ShapeError

X = fd.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
NAN, INF = math.nan, math.inf


def test_triangles_of_indices_are_numpy_s() -> None:
    assert np.array_equal(fd.tril_indices(3, 4, 1).numpy(), np.stack(np.tril_indices(3, 1, 4)))
    assert np.array_equal(fd.triu_indices(3, 4, -1).numpy(), np.stack(np.triu_indices(3, -1, 4)))


def test_logspace_is_powers_of_its_base() -> None:
    assert fd.logspace(0, 2, 3).tolist() == [1.0, 10.0, 100.0]
    assert fd.logspace(0, 2, 3, base=2, dtype=fd.int64).tolist() == [1, 2, 4]


def gradient_of(f: Callable[[fd.Tensor], fd.Tensor], values: Any) -> list[Any]:
    x = fd.tensor(values, requires_grad=True)
    f(x).sum().backward()
    assert x.grad is not None
    return x.grad.tolist()  # type: ignore[no-any-return]


def test_all_that_tie_share_the_gradient_of_the_median_of_all() -> None:
    assert gradient_of(lambda x: x.median(), [2.0, 1.0, 2.0, 3.0, 2.0]) == pytest.approx(
        [1 / 3, 0, 1 / 3, 0, 1 / 3]
    )


def test_all_that_tie_share_the_gradient_of_a_scattered_maximum() -> None:
    index = fd.tensor([0, 0, 1])
    src = fd.tensor([5.0, 5.0, 1.0])
    given = gradient_of(lambda x: x.scatter_reduce(0, index, src, "amax"), [5.0, 2.0])
    assert given == pytest.approx([1 / 3, 1.0])


def test_running_extremes_keep_nan_and_name_the_last_of_equals() -> None:
    found = fd.tensor([1.0, 3.0, 3.0, NAN, 9.0, NAN]).cummax(0)
    np.testing.assert_array_equal(found.values.numpy(), [1, 3, 3, NAN, NAN, NAN])
    assert found.indices.tolist() == [0, 1, 2, 3, 3, 5]


def test_logcumsumexp_keeps_minus_infinity() -> None:
    assert fd.tensor([-INF, -INF, 1.0]).logcumsumexp(0).tolist() == [-INF, -INF, 1.0]


def test_distances_of_equal_rows_are_0_and_so_is_their_slope() -> None:
    rows = [[1.0, 2.0], [1.0, 2.0]]
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        fixed = fd.tensor(rows)
        assert gradient_of(lambda x, mode=mode: fd.cdist(x, fixed, compute_mode=mode), rows) == [  # type: ignore[misc]  # noqa: B023
            [0.0, 0.0],
            [0.0, 0.0],
        ]


def test_histc_counts_halves_by_their_numbers_and_beyond_what_they_tell_apart() -> None:
    x = fd.tensor([0.41796875, -1.515625, -2.953125, 0.404296875, -1.328125, 0.4765625])
    for dtype in (fd.float16, fd.bfloat16):
        assert fd.histc(x.to(dtype)).tolist() == fd.histc(x.to(dtype).double()).tolist()
        assert fd.histc(fd.ones(1000, dtype=dtype), 3).tolist() == [0, 1000, 0]


def test_histc_takes_numbers_whose_distance_times_bins_is_infinite() -> None:
    assert fd.histc(fd.tensor([-(2.0**126), 0.0, 2.0**126]), 4).tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize(
    ("dtype", "most"),
    [
        (fd.float32, 3e38),
        *[(one, fd.finfo(one).max) for one in (fd.float32, fd.float64, fd.float16, fd.bfloat16)],
    ],
)
def test_histograms_count_between_bounds_farther_apart_than_their_dtype_holds(
    dtype: Any, most: float
) -> None:
    x = fd.tensor([-most, -most / 2, 0, most / 2, most], dtype=dtype)
    for given in ((-most, most), None):
        bounds = given or (0, 0)
        assert fd.histc(x, 4, *bounds).tolist() == [1, 1, 1, 2]
        found, edges = fd.histogram(x, 4, range=given)
        assert found.tolist() == [1, 1, 1, 2] and edges.tolist() == x.tolist()
        points = fd.stack([x, x], 1)
        boxes = fd.histogramdd(points, 4, range=None if given is None else [*given, *given])
        assert boxes.hist.tolist() == fd.tensor([1.0, 1, 1, 2]).diag().tolist()


@pytest.mark.parametrize("dtype", [fd.float32, fd.float64, fd.float16, fd.bfloat16])
def test_histograms_count_equal_numbers_beside_which_1_is_nothing(dtype: Any) -> None:
    for number in (fd.finfo(dtype).max, -fd.finfo(dtype).max, 2.0**15):
        x = fd.full((3,), number, dtype=dtype)
        assert fd.histc(x, 4).sum() == fd.histogram(x, 4)[0].sum() == 3


def test_as_strided_counts_its_offset_from_where_the_memory_begins() -> None:
    row = X[1]
    assert row.as_strided((2,), (1,)).tolist() == [3.0, 4.0]
    assert row.as_strided((2,), (1,), 1).tolist() == [1.0, 2.0]
    assert gradient_of(lambda x: x[1].as_strided((2, 2), (1, 1), 1), X.tolist()) == [
        [0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
    ]
    assert gradient_of(lambda x: x.as_strided((2, 2), (1, 1), 1), X.tolist()) == [
        [0.0, 1.0, 2.0],
        [1.0, 0.0, 0.0],
    ]


def test_as_strided_reaches_as_far_as_memory_of_another_dtype() -> None:
    x = fd.zeros(3, 2, dtype=fd.complex64)
    x.real.fill_diagonal_(2)
    x.imag.as_strided((2,), (6,)).fill_(1)
    assert x.tolist() == [[2 + 1j, 0], [0, 2 + 1j], [0, 0]]
    with pytest.raises(ShapeError, match="out of bounds for storage of size 48"):
        x.imag.as_strided((3,), (6,))
    with pytest.raises(ShapeError, match="out of bounds for storage of size 48"):
        x.view(fd.float64).as_strided((7,), (1,))


def test_as_strided_and_unfold_are_views() -> None:
    x = fd.zeros(4)
    x.as_strided((2,), (2,)).fill_(1.0)
    x.unfold(0, 2, 2)[1].add_(2.0)
    assert x.tolist() == [1.0, 0.0, 3.0, 2.0]


@pytest.mark.parametrize("times", [1, 4], ids=["compared", "searched"])
@pytest.mark.parametrize("dtype", [fd.float32, fd.bfloat16])
def test_a_nan_among_test_elements_hides_none_of_them(dtype: Any, times: int) -> None:
    x = fd.tensor([math.inf, -math.inf, math.nan, 3.0, 4.0], dtype=dtype)
    among = fd.tensor([math.nan, -math.inf, 3.0, math.nan, 5.0] * times, dtype=dtype)
    assert fd.isin(x, among).tolist() == [False, True, False, True, False]
    assert fd.isin(x, among, invert=True).tolist() == [True, False, True, False, True]
    assert not fd.isin(x, fd.full((2 * times * times,), math.nan, dtype=dtype)).any()


def test_isin_gives_the_same_for_few_and_many_test_elements() -> None:
    x, few = fd.arange(-6, 6).reshape(3, 4), fd.tensor([[4, -1], [9, 0]])
    wanted = np.isin(x.numpy(), few.numpy())
    for among in (few, few.repeat(2, 3), few.double(), few.to(fd.int32).repeat(2, 3)):
        assert np.array_equal(fd.isin(x, among).numpy(), wanted)
        assert np.array_equal(fd.isin(x.t(), among, invert=True).numpy(), ~wanted.T)
    assert fd.isin(fd.tensor(4), few).item() is True
    assert fd.isin(0, few).shape == ()


def test_scatter_meets_what_stands_there_with_reduce() -> None:
    index = fd.tensor([[0, 1, 2], [0, 0, 1]])
    assert X.scatter(1, index, X, reduce="add").tolist() == [[0, 2, 4], [10, 9, 5]]
    assert X.scatter(1, index, 2.0, reduce="multiply").tolist() == [[0, 2, 4], [12, 8, 5]]


@pytest.mark.parametrize("invert", [False, True])
def test_nothing_is_in_nothing(invert: bool) -> None:
    assert fd.isin(X, fd.empty(0), invert=invert).tolist() == [[invert] * 3] * 2


def test_out_takes_one_tensor_or_as_many_as_there_are_results() -> None:
    out = (fd.empty(0), fd.empty(0, dtype=fd.int64))
    found = fd.cummax(X, 1, out=out)
    assert found[0] is out[0]
    assert fd.equal(out[0], X)
    with pytest.raises(TypeError, match="'out' must be a tuple of 2 Tensors"):
        fd.kthvalue(X, 1, out=fd.empty(0))


def test_cov_weighs_columns() -> None:
    x = np.array([[1.0, 2.0, 5.0], [3.0, 1.0, 0.0]])
    n, w = np.array([1, 2, 1]), np.array([0.5, 1.0, 2.0])
    for correction in (0, 1):
        found = fd.cov(
            fd.tensor(x), correction=correction, fweights=fd.tensor(n), aweights=fd.tensor(w)
        )
        expected = np.cov(x, ddof=correction, fweights=n, aweights=w)
        np.testing.assert_allclose(found.numpy(), expected)


def test_distances_by_a_product_are_those_of_differences() -> None:
    x, y = fd.randn(30, 4, dtype=fd.float64), fd.randn(28, 4, dtype=fd.float64)
    exact = fd.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    np.testing.assert_allclose(fd.cdist(x, y).numpy(), exact.numpy(), rtol=1e-9)
    assert fd.cdist(x * NAN, y).isnan().all()


def test_histograms_count_between_their_ends() -> None:
    x = fd.randn(30)
    assert fd.histc(x, 3).tolist() == np.histogram(x.numpy(), 3)[0].tolist()
    assert fd.histogram(x, 4)[0].tolist() == np.histogram(x.numpy(), 4)[0].tolist()
    assert fd.histogram(x).hist.tolist() == np.histogram(x.numpy(), 100)[0].tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda **out: fd.diag(X, **out),
        lambda **out: fd.diff(X, **out),
        lambda **out: fd.hstack([X, X], **out),
        lambda **out: fd.vstack([X, X], **out),
        lambda **out: fd.dstack([X, X], **out),
        lambda **out: fd.column_stack([X, X], **out),
        lambda **out: fd.masked_select(X, X > 2, **out),
        lambda **out: fd.msort(X, **out),
        lambda **out: fd.nansum(X, 1, **out),
        lambda **out: fd.nanmean(X, **out),
        lambda **out: fd.vdot(X[0], X[1], **out),
        lambda **out: fd.take(X, fd.tensor([1, 5]), **out),
        lambda **out: fd.index_add(X, 0, fd.tensor([1]), X[:1], **out),
        lambda **out: fd.quantile(X, 0.4, **out),
        lambda **out: fd.kron(X, X, **out),
        lambda **out: fd.histc(X, 3, **out),
    ],
)
def test_out_takes_the_result(call: Callable[..., fd.Tensor]) -> None:
    out = fd.empty(0)
    assert call(out=out) is out
    assert fd.equal(out, call())


@pytest.mark.parametrize("name", ["sort", "topk", "cummin", "aminmax"])
def test_out_takes_both_results(name: str) -> None:
    given = {"topk": (2, 1), "cummin": (1,)}.get(name, ())
    expected = getattr(fd, name)(X, *given)
    out = tuple(fd.empty(0, dtype=one.dtype) for one in expected)
    found = getattr(fd, name)(X, *given, out=out)
    assert type(found) is type(expected)
    assert all(a is b and fd.equal(a, c) for a, b, c in zip(found, out, expected))


I = X.long()  # noqa: E741
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: fd.median(X > 2), RuntimeError, "\"median_cpu\" not implemented for 'Bool'"),
    (lambda: fd.empty(0, 3).median(0), IndexError, "median(): Expected reduction dim 0 to have"),
    (lambda: X.kthvalue(4), RuntimeError, "kthvalue(): selected number k out of range for"),
    (lambda: fd.empty(0).mode(), IndexError, "mode(): Expected reduction dim 0 to have non-zero"),
    (lambda: I.quantile(0.5), RuntimeError, "quantile() input tensor must be either float or"),
    (lambda: X.quantile(1.5), RuntimeError, "quantile() q must be in the range [0, 1] but got 1.5"),
    (lambda: X.quantile(fd.ones(1).double()), RuntimeError, "quantile() q tensor must be same"),
    (lambda: X.quantile(fd.ones(1, 1)), RuntimeError, "quantile() q must be a scalar or 1D tensor"),
    (lambda: fd.empty(0).quantile(0.5), RuntimeError, "quantile() input tensor must be non-empty"),
    (lambda: X.histc(4, 3, 1), RuntimeError, "torch.histc: max must be larger than min"),
    (lambda: (X / 0).histc(4), RuntimeError, "torch.histc: range of"),
    (lambda: I.histc(4), RuntimeError, "\"histogram_cpu\" not implemented for 'Long'"),
    (lambda: fd.isin(1, 2), TypeError, "isin() received an invalid combination of arguments"),
    (lambda: fd.cdist(I, I), RuntimeError, "cdist only supports floating-point dtypes, X1 got"),
    (lambda: fd.cdist(X, X[:, :2]), RuntimeError, "X1 and X2 must have the same number of columns"),
    (lambda: fd.cdist(X, X, -1), RuntimeError, "cdist only supports non-negative p values"),
    (lambda: fd.cdist(X, X.double()), RuntimeError, "expected scalar type Float but found Double"),
    (lambda: fd.pdist(X[0]), RuntimeError, "pdist only supports 2D tensors, got: 1D"),
    (lambda: fd.triu_indices(-2, 3), RuntimeError, "row must be non-negative, got-2"),
    (lambda: fd.diag_embed(X, 0, 0, 0), RuntimeError, "diagonal dimensions cannot be identical"),
    (lambda: fd.cartesian_prod(X), RuntimeError, "Expect a 1D vector, but got shape [2, 3]"),
    (lambda: fd.cross(X, X, 0), RuntimeError, "linalg.cross: inputs dimension 0 must have length"),
    (lambda: fd.unravel_index(X, (2, 3)), TypeError, "expected 'indices' to be integer dtype"),
    (lambda: X.renorm(2, 0, -1.0), RuntimeError, "renorm: expected maxnorm to be >= 0 but got -1"),
    (lambda: X.rot90(1, (0, 0)), RuntimeError, "expected rotation dims to be different"),
    (lambda: fd.hsplit(X, 2), RuntimeError, "torch.hsplit attempted to split along dimension 1"),
    (lambda: X.masked_scatter(I, X), RuntimeError, "masked_scatter_ only supports boolean masks"),
    (lambda: X.masked_scatter(X > 2, X[0, :2]), RuntimeError, "Number of elements of source <"),
    (lambda: X.put(fd.tensor([7]), X[0, :1]), IndexError, "out of range: tried to access index 7"),
    (lambda: X.select_scatter(X[:, 0], 0, 1), RuntimeError, "expected src to have a size equal to"),
    (lambda: X.as_strided((2, 9), (1, 1), 1), RuntimeError, "setStorage: sizes [2, 9], strides"),
    (lambda: X.as_strided((2, 2), (-1, 1)), RuntimeError, "as_strided: Negative strides are not"),
    (lambda: X.unfold(1, 4, 1), RuntimeError, "maximum size for tensor at dimension 1 is 3 but"),
    (lambda: X.unfold(1, 2, 0), RuntimeError, "step is 0 but must be > 0"),
    (
        lambda: X.scatter_reduce(1, I % 3, X, "x"),
        RuntimeError,
        "reduce argument must be either sum",
    ),
    (lambda: X.scatter(1, I % 3, 2.0, reduce="amax"), RuntimeError, "reduce argument must be eith"),
    (
        lambda: X.index_reduce(0, I[0, :2], X, "sum"),
        RuntimeError,
        "index_reduce(): Expected reduce",
    ),
    (lambda: I.logcumsumexp(0), RuntimeError, '"logcumsumexp_out_cpu" not implemented for \'Lo'),
    (lambda: fd.igamma(I, I), RuntimeError, "\"igamma_cpu\" not implemented for 'Long'"),
    (lambda: fd.mvlgamma(X, 0), RuntimeError, "p has to be greater than or equal to 1"),
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_what_has_no_meaning_is_refused_in_pytorch_s_words(
    call: Callable[[], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()


def test_a_histogram_of_one_number_or_none_has_pytorch_s_edges() -> None:
    assert fd.histogram(fd.ones(3), 2).bin_edges.tolist() == [0.5, 1.0, 1.5]
    assert fd.histogram(fd.zeros(0), 2).bin_edges.tolist() == [0.0, 0.5, 1.0]
    hist, edges = fd.histogram(fd.ones(3), 2, range=(0.0, 0.0))
    assert (hist.tolist(), edges.tolist()) == ([0.0, 0.0], [-0.5, 0.0, 0.5])
    assert fd.histogramdd(fd.ones(2, 1), 2).bin_edges[0].tolist() == [0.5, 1.0, 1.5]


def test_logit_beyond_a_half_lets_eps_go_before_its_other_bound() -> None:
    x = fd.tensor([0.0, 0.5, 1.0, NAN], requires_grad=True)
    found = x.logit(1)
    np.testing.assert_array_equal(found.detach().numpy(), [INF, INF, -INF, NAN])
    found[:3].sum().backward()
    assert x.grad is not None and x.grad[:3].tolist() == [0.0, 0.0, 0.0]


def test_block_diag_counts_tensors_without_axes_last() -> None:
    number, row = fd.tensor(1.0, dtype=fd.float64), fd.tensor([2.0])
    assert fd.block_diag(number, row).dtype is fd.float32
    assert fd.block_diag(number, row.int()).dtype is fd.float64
    assert fd.block_diag(row.long(), row.int()).tolist() == [[2, 0], [0, 2]]


def test_trapezoids_count_the_axes_of_x_from_the_front() -> None:
    for function in (fd.trapezoid, fd.cumulative_trapezoid):
        with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match"):
            function(fd.ones(3), fd.ones(3, 3))
    assert fd.trapezoid(fd.ones(2, 3), fd.ones(4, 2, 3), dim=0).tolist() == [[0.0] * 3] * 2
    assert fd.trapezoid(fd.ones(2, 2, 3), X).tolist() == [[2.0, 2.0]] * 2


@pytest.mark.parametrize("name", ["median", "nanmedian", "max", "min"])
def test_an_axis_is_kept_only_where_one_is_named(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\(\) missing 1 required"):
        getattr(X, name)(keepdim=True)


@pytest.mark.parametrize("name", ["flip", "tile", "new_empty", "new_ones", "new_zeros"])
def test_sizes_may_be_none_but_must_be_given(name: str) -> None:
    one = fd.tensor(1.0)
    with pytest.raises(TypeError, match=rf"^{name}\(\) missing 1 required"):
        getattr(one, name)()
    assert getattr(one, name)(()).shape == ()
    assert getattr(one, name)(**{"dims" if name in ("flip", "tile") else "size": ()}).shape == ()


@pytest.mark.parametrize(
    "of",
    [
        lambda: fd.cov(fd.tensor([[1.0], [2.0]])),
        lambda: fd.cov(fd.ones(2, 0)),
        lambda: fd.cov(fd.ones(2, 3), correction=3),
        lambda: fd.cov(fd.ones(2, 3), fweights=fd.tensor([1, 0, 0])),
        lambda: fd.corrcoef(fd.tensor([[1.0], [2.0]])),
    ],
)
def test_cov_warns_where_there_are_too_few_observations(of: Any) -> None:
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        found = of()
    assert fd.isnan(found).all()
