"""While kernels are compiled, NumPy computes their results without a wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.kernels.cpu.jit import background
from fastdist.kernels.cpu.nn import averages, windows
from fastdist.kernels.cpu.pointwise import multi_tensor
from fastdist.kernels.cpu.sparse import coordinates
from fastdist.nn import functional as F
from tests.kernels.cpu.processes import run_script

RNG = np.random.default_rng(0)


def numbers(*shape: int, dtype: str = "float32") -> fd.Tensor:
    return fd.tensor(RNG.standard_normal(shape).astype(dtype), requires_grad=True)


def with_gradients(call: Callable[..., fd.Tensor], *given: fd.Tensor) -> list[np.ndarray]:
    found = call(*given)
    weights = np.linspace(-1, 1, found.numel(), dtype=found.dtype.numpy).reshape(found.shape)
    gradients = fd.autograd.grad(found, given, fd.tensor(weights))
    return [found.detach().numpy(), *[one.numpy() for one in gradients]]


def by_both(monkeypatch: pytest.MonkeyPatch, run: Callable[[], list[Any]]) -> list[tuple[Any, Any]]:
    """Return pairs of the results of `run`: with compiled kernels, and with NumPy."""
    compiled = run()
    with monkeypatch.context() as patched:
        patched.setattr(background, "numpy_serves", lambda: True)
        patched.setattr(background, "compile_later", lambda *given: None)
        return list(zip(compiled, run(), strict=True))


POOLS: dict[str, Callable[[fd.Tensor], Any]] = {
    "2": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "3 by 2": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "3 by 1": lambda x: F.max_pool2d(x, 3, 1, 1, return_indices=True),
    "wide": lambda x: F.max_pool2d(x, (5, 3), (3, 2), (2, 1), (2, 3), return_indices=True),
    "upwards": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
    "even parts": lambda x: F.adaptive_max_pool2d(x, (5, 7), return_indices=True),
    "a line": lambda x: F.max_pool1d(x.flatten(0, 1), 4, 3, 2, return_indices=True),
    "a space": lambda x: F.max_pool3d(x, (2, 3, 2), 1, (0, 1, 1), return_indices=True),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("kind", ["float64", "ties", "nan", "float32"])
def test_max_pools_by_numpy_are_those_of_the_loop_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    x = RNG.standard_normal((2, 3, 19, 22))
    if kind == "nan":
        x[RNG.random(x.shape) < 0.2] = np.nan
        x[RNG.random(x.shape) < 0.2] = -np.inf
    elif kind == "ties":
        x = np.round(x)
    given = fd.tensor(x.astype("float32" if kind == "float32" else "float64"))
    for one, other in by_both(monkeypatch, lambda: [t.numpy() for t in POOLS[name](given)]):
        np.testing.assert_array_equal(one, other)


def test_gradients_of_max_pools_by_numpy_are_those_of_the_loop_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = numbers(2, 3, 19, 22)

    def run() -> list[np.ndarray]:
        call = lambda x: F.max_pool2d(x, 3, 2, 1)  # noqa: E731
        first = with_gradients(call, x)
        (by_x,) = fd.autograd.grad(call(x), x, fd.ones(2, 3, 10, 11), create_graph=True)
        return [*first, by_x.detach().numpy()]

    for one, other in by_both(monkeypatch, run):
        np.testing.assert_array_equal(one, other)


CALLS: dict[str, tuple[Callable[..., fd.Tensor], list[tuple[int, ...]]]] = {
    "convolution": (
        lambda x, w: F.conv2d(x, w, padding=1, stride=2),
        [(3, 4, 21, 23), (8, 4, 3, 3)],
    ),
    "a large image": (
        lambda x, w: F.conv2d(x, w, padding=2, dilation=2),
        [(1, 8, 150, 140), (8, 8, 5, 5)],
    ),
    "transposed": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        [(3, 4, 21, 23), (4, 8, 3, 3)],
    ),
    "depthwise": (
        lambda x, w, b: F.conv2d(x, w, b, padding=2, stride=(1, 2), dilation=2, groups=6),
        [(3, 6, 21, 23), (12, 1, 3, 3), (12,)],
    ),
    "depthwise, transposed": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, groups=6),
        [(3, 6, 11, 13), (6, 1, 3, 3), (6,)],
    ),
    "averages of a line": (
        lambda x: F.avg_pool1d(x, 5, 3, 2, ceil_mode=True, count_include_pad=False),
        [(3, 4, 40)],
    ),
    "averages apart": (lambda x: F.avg_pool1d(x, 2, 5), [(3, 4, 43)]),
    "averages of images": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), [(3, 4, 20, 23)]),
    "averages of a space": (lambda x: F.avg_pool3d(x, (2, 3, 2), 2), [(2, 3, 6, 8, 7)]),
    "averages of parts": (lambda x: F.adaptive_avg_pool2d(x, (5, 7)), [(3, 4, 19, 22)]),
    "interpolation": (
        lambda x: F.interpolate(x, (31, 17), mode="bicubic", align_corners=True),
        [(3, 4, 19, 22)],
    ),
    "running products": (lambda x: (x / 9 + 1).cumprod(1), [(150, 130)]),
    "running products downwards": (lambda x: (x / 9 + 1).cumprod(0), [(150, 130)]),
    "unfold": (lambda x: F.unfold(x, 3, padding=1), [(3, 4, 21, 23)]),
    "batch norm": (
        lambda x, w, b: F.batch_norm(x + 30, None, None, w, b, training=True),
        [(6, 5, 9, 7), (5,), (5,)],
    ),
    "a product": (fd.matmul, [(200, 160), (160, 96)]),
    "linear": (F.linear, [(64, 96), (128, 96), (128,)]),
}


def test_largest_integers_by_numpy_are_those_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.integers(-100, 100, (2, 3, 11, 12), np.int8)
    windows_of_x = ((3, 2, 1, 1), (2, 3, 1, 1))

    def run() -> list[np.ndarray]:
        out, places = np.empty((2, 3, 6, 4), np.int8), np.empty((2, 3, 6, 4), np.int64)
        windows.largest(x, out, places, windows_of_x)
        return [out, places]

    for one, other in by_both(monkeypatch, run):
        np.testing.assert_array_equal(one, other)


def test_averages_of_integers_by_numpy_are_those_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = RNG.integers(-9, 9, (40, 50))

    def run() -> list[np.ndarray]:
        out = np.empty((40, 18), np.int64)
        averages.average(x, out, (4, 3, 2), whole=True)
        return [out]

    for one, other in by_both(monkeypatch, run):
        np.testing.assert_array_equal(one, other)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CALLS)
def test_numpy_gives_what_the_kernels_give_within_rounding(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    call, shapes = CALLS[name]
    given = [numbers(*shape) for shape in shapes]
    for one, other in by_both(monkeypatch, lambda: with_gradients(call, *given)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5 * np.abs(one).max())


MASK = RNG.random((70, 90)) < 0.7
MASK[3] = False
ATTENTIONS: dict[str, dict[str, Any]] = {
    "of all": {},
    "of those before": {"is_causal": True},
    "under a mask": {"attn_mask": fd.tensor(MASK)},
    "with numbers added": {"attn_mask": fd.tensor(RNG.standard_normal((3, 1, 70, 90)))},
    "thinned out": {"dropout_p": 0.3},
    "thinned out, of those before": {"dropout_p": 0.3, "is_causal": True},
    "in groups": {"enable_gqa": True},
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_attention_by_numpy_is_that_of_the_loops_within_rounding(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
) -> None:
    more = dict(ATTENTIONS[name])
    if "attn_mask" in more and more["attn_mask"].dtype is not fd.bool:
        more["attn_mask"] = more["attn_mask"].to(getattr(fd, dtype)).requires_grad_()
    heads = 1 if name == "in groups" else 2
    shapes = (3, 2, 70, 24), (3, heads, 90, 24), (3, heads, 90, 40)
    given = [numbers(*shape, dtype=dtype) for shape in shapes]
    if "attn_mask" in more and more["attn_mask"].requires_grad:
        given.append(more.pop("attn_mask"))

    def call(*given: fd.Tensor) -> fd.Tensor:
        fd.manual_seed(0)
        return F.scaled_dot_product_attention(*given, **more)

    rounding = 1e-4 if dtype == "float32" else 1e-11
    for one, other in by_both(monkeypatch, lambda: with_gradients(call, *given)):
        np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding / 10)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "relu"])
@pytest.mark.parametrize("dtype", [fd.float32, fd.float64], ids=str)
def test_recurrent_cells_by_numpy_are_those_of_the_loops_within_rounding(
    monkeypatch: pytest.MonkeyPatch, kind: str, dtype: fd.dtype
) -> None:
    more = {"nonlinearity": "relu"} if kind == "relu" else {}
    layer = getattr(fd.nn, "RNN" if kind == "relu" else kind)(9, 7, 2, dtype=dtype, **more)
    x = numbers(20, 5, 9, dtype=str(dtype.numpy))
    parameters = [x, *layer.parameters()]
    rounding = 1e-4 if dtype is fd.float32 else 1e-11
    both = by_both(monkeypatch, lambda: with_gradients(lambda x, *_: layer(x)[0], *parameters))
    for one, other in both:
        np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding / 10)


PLACES = fd.tensor(RNG.integers(0, 80, (80, 90)))
MOVES: dict[str, Callable[[fd.Tensor], fd.Tensor]] = {
    "gather": lambda x: x.gather(0, PLACES),
    "gather along rows": lambda x: x.gather(1, PLACES[:70]),
    "scatter": lambda x: x.scatter(0, PLACES, x * 2),
    "scatter_add": lambda x: x.scatter_add(0, PLACES, x),
    "index_add": lambda x: x.index_add(0, PLACES[0, :80], x),
    "index_add to columns": lambda x: x.index_add(1, PLACES[0], x),
    "embedding": lambda x: F.embedding(PLACES[0], x),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MOVES)
def test_moves_by_numpy_are_those_of_the_loops_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    x = numbers(80, 90)
    for one, other in by_both(monkeypatch, lambda: with_gradients(MOVES[name], x)):
        np.testing.assert_array_equal(one, other)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_extremes_by_numpy_are_those_of_the_loop_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch, name: str, axis: int
) -> None:
    x = np.round(RNG.standard_normal((160, 120)) * 3)
    x[70, 50] = np.nan
    found = by_both(monkeypatch, lambda: [*getattr(fd.tensor(x), name)(axis)])
    for one, other in found:
        np.testing.assert_array_equal(one.numpy(), other.numpy())


# Each reduction and dtype has two loops, each of which takes most of a second to compile. In int64
# only the mean is computed in another way than in float32.
@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("dtype", "way"),
    [
        *[("float32", way) for way in ("sum", "prod", "mean", "amax", "amin")],
        ("int64", "mean"),
        *[
            pytest.param("int64", way, marks=pytest.mark.slow)
            for way in ("sum", "prod", "amax", "amin")
        ],
    ],
)
@pytest.mark.parametrize("include_self", [True, False])
def test_what_is_scattered_and_reduced_by_numpy_is_that_of_the_loop_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch, way: str, include_self: bool, dtype: str
) -> None:
    x = fd.tensor(RNG.integers(-3, 4, (80, 90)).astype(dtype))
    src = fd.tensor(RNG.integers(-3, 4, (80, 90)).astype(dtype))

    def run() -> list[np.ndarray]:
        made = [x.scatter_reduce(0, PLACES, src, way, include_self=include_self)]
        if way != "sum":
            given = PLACES[0, :80], src, way
            made.append(x.index_reduce(0, *given, include_self=include_self))
        return [one.numpy() for one in made]

    for one, other in by_both(monkeypatch, run):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sparse_sums_by_numpy_are_those_of_the_loops_within_rounding(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    monkeypatch.setattr(coordinates, "_PIECE", 100)
    places = np.stack([RNG.integers(0, 40, 300), RNG.integers(0, 50, 300)])
    values = RNG.standard_normal(300).astype(dtype)
    other = fd.tensor(RNG.standard_normal((50, 9)).astype(dtype))

    def run() -> list[np.ndarray]:
        x = fd.sparse_coo_tensor(fd.tensor(places), fd.tensor(values), (40, 50))
        return [x.to_dense().numpy(), (x @ other).numpy(), x.coalesce().values().numpy()]

    for one, by_numpy in by_both(monkeypatch, run):
        np.testing.assert_allclose(one, by_numpy, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ctc_by_numpy_is_that_of_the_loops_within_rounding(
    monkeypatch: pytest.MonkeyPatch, zero_infinity: bool, dtype: str
) -> None:
    steps, n = 30, 5
    likely = numbers(steps, n, 6, dtype=dtype).detach().log_softmax(2).requires_grad_()
    texts = fd.tensor([[1, 2, 2, 3], [4, 4, 4, 4], [5, 1, 0, 0], [1, 2, 3, 4], [0, 0, 0, 0]])
    # The second target needs more steps than its sample has; the fourth sample has no steps.
    times, lengths = [30, 5, 20, 0, 12], [4, 4, 2, 4, 0]

    def call(likely: fd.Tensor) -> fd.Tensor:
        more = {"reduction": "none", "zero_infinity": zero_infinity}
        return F.ctc_loss(likely, texts, times, lengths, **more)

    for one, other in by_both(monkeypatch, lambda: with_gradients(call, likely)):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_a_step_of_an_optimizer_by_numpy_is_that_of_the_launch_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, gradient = numbers(300, 300), numbers(300, 300)

    def run() -> list[np.ndarray]:
        parameter = start.detach().clone().requires_grad_()
        parameter.grad = gradient.detach()
        optimizer = fd.optim.Adam([parameter], lr=0.01, weight_decay=0.1)
        for _ in range(3):
            optimizer.step()
        return [parameter.detach().numpy()]

    [compiled] = run()
    monkeypatch.setattr(multi_tensor, "LIMIT", 1 << 40)
    np.testing.assert_array_equal(run()[0], compiled)


# Only the background thread may compile. If another thread compiled, it would have waited.
NOBODY_WAITS = """
import threading
import fastdist as torch
from fastdist.kernels.cpu.jit import background, waiting
from fastdist.nn import functional as F
waited = []
whole = waiting.compiling
def compiling(what):
    if threading.current_thread().name != "fastdist-compiler":
        waited.append(what)
    return whole(what)
waiting.compiling = compiling
torch.set_num_threads(1)
def calls():
    x, y = torch.randn(300, 300, requires_grad=True), torch.rand(300, 300)
    images, weights = torch.rand(8, 16, 32, 32, requires_grad=True), torch.rand(16, 16, 3, 3)
    places = torch.randint(0, 300, (300, 300))
    results = [CALLS]
    sum([one.square().sum() for one in results]).backward()
    if STEPS:
        torch.optim.Adam([x]).step()
    return [one.detach().numpy() for one in results]
torch.manual_seed(0)
first = calls()
for _ in range(300):
    thread = background._State.thread
    if thread is None:
        break
    thread.join(1)
torch.manual_seed(0)
second = calls()
print(waited, all(abs(a - b).max() < 1e-3 * abs(a).max() for a, b in zip(first, second)))
print(len(background._State.found) >= KERNELS)
"""
# The calls, and the smallest number of kernels that the background thread compiles for them.
TOGETHER = {
    "layers": (
        """F.linear(x, y), x @ y, F.max_pool2d(images, 2),
        F.batch_norm(images, None, None, training=True)""",
        5,
    ),
    "steps": ("torch.nn.LSTM(30, 32)(x.view(100, 30, 30))[0]", 3),
    "windows": (
        """F.conv2d(images, weights, padding=1), F.avg_pool2d(images, 2),
        F.conv2d(images, weights[:, :1], groups=16), F.avg_pool1d(x, 3)""",
        6,
    ),
    "attention and texts": (
        """F.scaled_dot_product_attention(*[x.view(2, 3, 150, 100)] * 3, is_causal=True),
        F.ctc_loss(x.view(30, 100, 30).log_softmax(2), places[:100, :5] % 29 + 1, [30] * 100,
                   [5] * 100)""",
        4,
    ),
    "places": (
        """x.cummax(1)[0], x.scatter_reduce(0, places, y, "amax"), x.index_add(1, places[0], y),
        x.gather(1, places), y.scatter_add(0, places, x)""",
        6,
    ),
}


@pytest.fixture(scope="module")
def compiled_draws() -> None:
    # Random numbers have no loop of NumPy, so a first draw waits for its kernel.
    draws = "torch.randn(300, 300), torch.rand(300, 300), torch.rand(16, 16, 3, 3)"
    run_script(f"import fastdist as torch\n{draws}, torch.randint(0, 300, (300, 300))")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.usefixtures("compiled_draws")
def test_with_numpy_at_the_start_common_kernels_are_compiled_by_the_thread_alone(name: str) -> None:
    calls, kernels = TOGETHER[name]
    script = NOBODY_WAITS.replace("CALLS", calls).replace("STEPS", str(name == "steps"))
    found = run_script(script.replace("KERNELS", str(kernels)), FASTDIST_START="numpy")
    assert found == "[] True\nTrue"


def test_without_the_variable_it_is_never_numpys_turn() -> None:
    assert not background.is_numpys_turn(lambda: pytest.fail("called"))
