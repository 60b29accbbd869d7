"""Indexing, sorting and moving on cuda give the CPU's results for each order of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.determinism import determinism
from fastdist.core.dtypes import bfloat16
from fastdist.kernels.cuda.index.indexing import plan_written, runs_of_elements
from tests.fibre_shim import cupy
from tests.fibre_shim.driver import SEEDS
from tests.fibre_shim.installed import cuda_on_fibres, host_traffic

RNG = np.random.default_rng(11)
X = RNG.standard_normal((6, 5, 4)).astype(np.float32)
ROWS, WIDE = RNG.integers(-6, 6, 9), RNG.integers(0, 5, (3, 9))
PLACES: dict[str, Callable[[Any], Any]] = {
    "rows, negative and again": lambda on: on(ROWS),
    "one": lambda on: on(np.array([2])),
    "a matrix of rows": lambda on: on(WIDE),
    "the middle axis": lambda on: (slice(None), on(ROWS % 5)),
    "the last axis": lambda on: (..., on(ROWS % 4)),
    "two adjoining axes": lambda on: (slice(None), on(ROWS % 5), on(ROWS % 4)),
    "two axes apart": lambda on: (on(ROWS), slice(None), on(ROWS % 4)),
    "axes that broadcast": lambda on: (on(WIDE), on(ROWS % 5)),
    "all axes": lambda on: (on(ROWS), on(ROWS % 5), on(ROWS % 4)),
    "a mask": lambda on: on(X[:, :, 0] > 0),
    "a mask of nothing": lambda on: on(np.zeros((6, 5), bool)),
    "nowhere": lambda on: on(np.zeros(0, np.int64)),
    "of a view": lambda on: (slice(1, None, 2), on(ROWS % 5)),
    "int32": lambda on: on(ROWS.astype(np.int32)),
}


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from cuda_on_fibres(monkeypatch)


def on(device: str) -> Callable[[np.ndarray], Any]:
    return lambda array: fd.tensor(array, device=device)


def both(compute: Callable[[Callable[[np.ndarray], Any]], Any]) -> None:
    """Require that the results on cuda equal those on the CPU exactly."""
    found, expected = compute(on("cuda")), compute(on("cpu"))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype is other.dtype and one.shape == other.shape
        if one.dtype is fd.bfloat16:
            one, other = one.float(), other.float()
        np.testing.assert_array_equal(one.detach().cpu().numpy(), other.detach().numpy())


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_, bfloat16.numpy])
def test_places_are_read_written_and_added_to(name: str, dtype: Any) -> None:
    def compute(on: Callable[[np.ndarray], Any]) -> Any:
        index, made = PLACES[name](on), []
        x = on((X * 4).astype(dtype))
        taken = x[index]
        made.append(taken)
        for value in (
            1,
            on(np.ones(1, dtype)),
            on(np.ones(taken.shape[-1:], dtype)),
            taken.clone(),
        ):
            changed = x.clone()
            changed[index] = value
            made.append(changed)
        return made

    both(compute)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("counts", [[1500], [256, 256, 1], [255, 2, 600, 256], [0, 512, 3, 1100]])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, bfloat16.numpy])
def test_many_values_for_one_place_are_added_in_chunks(counts: list[int], dtype: Any) -> None:
    rng = np.random.default_rng(5)
    index = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    values = rng.integers(-1, 2, (len(index), 3)).astype(dtype)

    def compute(on: Callable[[np.ndarray], Any]) -> Any:
        x, rows, src = on(np.ones((5, 3), dtype)), on(index), on(values)
        made = [x.index_add(0, rows, src, alpha=2), x.scatter_add(0, on(np.c_[[index] * 3].T), src)]
        made.append(x.index_put((rows,), src, accumulate=True))
        made.append(x[:, 0].index_put((rows - 5,), src[:, 1], accumulate=True))
        return made

    both(compute)


@pytest.fixture
def waiving() -> Iterator[None]:
    """Reset the setting about repeatable results after a test."""
    yield
    determinism.forget()


@pytest.mark.usefixtures("waiving")
def test_places_are_sorted_unless_repeatable_results_are_waived_in_so_many_words() -> None:
    def launched(dtype: Any, *, added: bool) -> list[str]:
        index, src, out = np.zeros(9, np.int64), np.zeros(9, dtype), np.zeros(4, dtype)
        steps = plan_written(
            lambda to: runs_of_elements(index, src, to), src, index, out, added=added
        )
        return [step.name for step in steps]

    assert not fd.are_deterministic_algorithms_enabled()
    assert launched(np.float32, added=True) == ["order_in_warps", "add"]
    fd.use_deterministic_algorithms(False)
    assert launched(np.float32, added=True) == ["add_at_once"]
    assert launched(np.float32, added=False) == ["put_at_once"]
    assert launched(np.float16, added=True)[1:-1] == ["add_at_once"]
    assert launched(np.int8, added=True) == ["order_in_warps", "add"]
    for warn_only in (True, False):
        fd.use_deterministic_algorithms(True, warn_only=warn_only)
        assert launched(np.float32, added=True) == ["order_in_warps", "add"]
        assert launched(np.float32, added=False) == ["order_in_warps", "put"]


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("waiving")
@pytest.mark.parametrize("order", SEEDS)
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.float16, bfloat16.numpy, np.int32, np.int64, np.uint8]
)
def test_what_is_added_and_written_at_once_is_the_same_but_for_its_order(
    dtype: Any, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupy, "schedule", [order])
    rows, apart = RNG.integers(-4, 4, 300), RNG.permutation(9)
    values = RNG.integers(0, 2, (300, 3)).astype(dtype)

    def compute(on: Callable[[np.ndarray], Any]) -> Any:
        x, index, src = on(np.ones((5, 3), dtype)), on(rows % 5), on(values)
        made = [x.index_add(0, index, src, alpha=2), x.scatter_add(1, on(WIDE % 3)[:, :5].T, x)]
        made.append(x.index_put((on(rows),), src, accumulate=True))
        made.append(x.T.index_put((on(rows % 3), on(rows)), src[:, 1], accumulate=True))
        long = on(np.ones((9, 3), dtype))
        long[on(apart)] = src[:9]
        made.append(long.scatter(0, on(np.c_[apart, apart[::-1]]), src[9:18, 1:]))
        return made

    fd.use_deterministic_algorithms(False)
    both(compute)


@pytest.mark.usefixtures("waiving")
def test_waiving_holds_for_calls_that_were_prepared_before() -> None:
    index, src = on("cuda")(np.zeros(5, np.int64)), fd.ones(5, device="cuda")
    names: list[str] = []
    for choose in (lambda: None, lambda: fd.use_deterministic_algorithms(False)):
        choose()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cupy, "run_text", lambda text, name, *_, **__: names.append(name))
            fd.zeros(4, device="cuda").scatter_add(0, index, src)
    assert "add" in names and "add_at_once" in names
    assert names.index("add") < names.index("add_at_once")


def test_places_that_are_not_there_are_passed_over_among_many() -> None:
    index = on("cuda")(RNG.permutation(np.repeat([-9, 1, 9], 300)))
    added = fd.zeros(3, device="cuda").scatter_add(0, index, fd.ones(900, device="cuda"))
    assert added.tolist() == [0, 300, 0]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", PLACES)
def test_gradients_go_to_the_places_that_were_read(name: str) -> None:
    def compute(on: Callable[[np.ndarray], Any]) -> Any:
        index, x = PLACES[name](on), on(X).requires_grad_()
        # Gradients are whole numbers, so their sums do not depend on the order of addition.
        taken = x[index]
        taken.backward(on(np.arange(taken.numel(), dtype=np.float32)).reshape(taken.shape))
        y, value = on(X).requires_grad_(), on(np.full(taken.shape, 2, np.float32))
        value.requires_grad_()
        changed = y * 1
        changed[index] = value
        (changed * on(X.round())).sum().backward()
        if name in ("two axes apart", "a matrix of rows"):
            return [x.grad, y.grad]  # value.grad depends on which of two equal indices is kept
        return [x.grad, y.grad, value.grad]

    both(compute)


def test_what_is_added_many_times_is_added_in_order() -> None:
    def compute(on: Callable[[np.ndarray], Any]) -> Any:
        values = np.random.default_rng(2).standard_normal((700, 3)).astype(np.float32)
        rows = np.arange(700) % 3
        x = on(np.zeros((4, 3), np.float32))
        wide = on(np.repeat(rows[:, None], 3, 1))
        return [
            x.index_add(0, on(rows), on(values), alpha=2),
            x.index_put((on(rows),), on(values), accumulate=True),
            x.scatter_add(0, wide, on(values)),
            x.scatter(0, wide, on(values)),
            on(values).gather(0, wide),
            on(values).index_select(0, on(rows)),
        ]

    found, again = compute(on("cuda")), compute(on("cuda"))
    for one, other, cpu in zip(found, again, compute(on("cpu")), strict=True):
        assert one.equal(other)
        np.testing.assert_allclose(one.cpu().numpy(), cpu.numpy(), rtol=2e-5, atol=2e-5)


def test_what_an_axis_has_not_is_nan_or_far_out_and_is_not_written() -> None:
    index = fd.tensor([0, 7, -1], device="cuda")
    x = fd.tensor([1.0, 2.0], device="cuda")
    assert np.isnan(x.gather(0, index).cpu().numpy()).tolist() == [False, True, True]
    whole = fd.tensor([1, 2], device="cuda")
    assert whole.index_select(0, index).tolist() == [1, -(2**63), -(2**63)]
    for dtype, far in ((fd.int32, -(2**31)), (fd.uint8, 255), (fd.int8, -128)):
        assert whole.to(dtype).gather(0, index).tolist() == [1, far, far]
    assert x.scatter_add(0, index, fd.ones(3, device="cuda")).tolist() == [2.0, 2.0]
    assert x.index_add(0, index, fd.ones(3, device="cuda")).tolist() == [2.0, 2.0]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.bool_, bfloat16.numpy])
@pytest.mark.parametrize("turned", [False, True])
def test_orders_and_moves_are_the_cpu_s(dtype: Any, turned: bool) -> None:
    def compute(on: Callable[[np.ndarray], Any]) -> Any:
        x = on((X * 2).round().astype(dtype))
        x = x.permute(2, 0, 1)[::1, 1:] if turned else x
        made = [x.flip(0, 2), x.flip(1), x.roll(3), x.roll((1, -2), (0, 2)), x.roll(-700, 1)]
        made += [x.triu(1), x.tril(-1), fd.cat([x, x[:1], x], 0), fd.cat([x, x], -1)]
        made += [fd.diag_embed(x, 1), fd.diag_embed(x, -2, 0, 2), fd.stack([x, x], 1)]
        for descending in (False, True):
            made += [*x.sort(1, descending), *x.argsort(stable=True)[None]]
            made += [*x.topk(2, -1, descending)] if dtype is not np.bool_ else []
        return made

    both(compute)


def test_nan_is_the_largest() -> None:
    def compute(on: Callable[[np.ndarray], Any]) -> Any:
        x = on(np.array([1, np.nan, -np.inf, np.inf, np.nan, 0, -0.0], np.float32))
        return [*x.sort(), *x.sort(descending=True), *x.topk(4), *x.topk(3, largest=False)]

    both(compute)


def test_numbers_without_axes() -> None:
    def compute(on: Callable[[np.ndarray], Any]) -> Any:
        x = on(np.array(3.0))
        zero = on(np.array(0))
        made = [x.gather(0, zero), x.index_select(0, zero.reshape(1)), *x.sort(), x.flip(())]
        made += [x.scatter(0, zero, 5.0), x.scatter_add(0, zero, x), x.roll(2), *x.topk(1)]
        return made

    both(compute)


def test_what_is_written_to_may_be_what_is_read() -> None:
    def compute(on: Callable[[np.ndarray], Any]) -> Any:
        x, y = on(np.arange(8.0)), on(np.arange(8.0))
        x[on(np.arange(7))] = x[1:]
        y[on(np.arange(7, -1, -1))] = y
        return [x, y]

    both(compute)


def test_losses_of_nothing_and_complex_fills_are_the_cpu_s() -> None:
    loss = fd.nn.functional.nll_loss
    for device in ("cpu", "cuda"):
        x = fd.zeros(0, 3, device=device)
        target = fd.zeros(0, dtype=fd.int64, device=device)
        assert np.isnan(loss(x, target).item()) and loss(x, target, reduction="sum").item() == 0
    assert fd.ones(2, dtype=fd.complex64, device="cuda").cpu().tolist() == [1, 1]


def test_weights_are_of_the_dtype_of_what_they_weigh() -> None:
    x, target = fd.zeros(2, 3), fd.tensor([0, 1])
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        fd.nn.functional.nll_loss(x, target, weight=fd.ones(3, dtype=fd.float64))


def test_nan_of_either_sign_is_the_largest() -> None:
    def compute(on: Callable[[np.ndarray], Any]) -> Any:
        x = on(np.array([1.0, np.copysign(np.nan, -1), -0.0, 0.0, -1.0], np.float32))
        return [*x.sort(), *x.topk(2)]

    both(compute)


# Expected results when some indices are out of range: such writes are skipped, reads give NaN.
OUTSIDE: dict[str, tuple[Callable[..., Any], list[float]]] = {
    "index_fill": (lambda x, i: x.index_fill(0, i, 9.0), [9, 1, 9]),
    "index_copy": (lambda x, i: x.index_copy(0, i, x + 4), [4, 1, 2]),
    "put": (lambda x, i: x.put(i, x + 4), [4, 1, 5]),
    "put, accumulated": (lambda x, i: x.put(i, x + 4, True), [4, 1, 7]),
    "take": (lambda x, i: x.take(i), [0, 2, np.nan]),
    "masked_scatter": (lambda x, i: x.masked_scatter(i < 4, x[1:2]), [1, np.nan, 2]),
    "masked_scatter of nothing": (lambda x, i: x.masked_scatter(i < 0, x[:0]), [0, np.nan, 2]),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_kernels_see_to_places_outside_and_nobody_waits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, expected = OUTSIDE[name]
    x, places = fd.arange(3.0, device="cuda"), fd.tensor([0, -1, 5], device="cuda")
    told = host_traffic(monkeypatch)
    found = call(x, places)
    assert told == []
    np.testing.assert_array_equal(found.cpu().numpy(), expected)
