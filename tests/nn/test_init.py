"""Initial values: bounds, standard deviations, reproducibility."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import fastdist
from fastdist import Tensor, nn
from fastdist.nn import init
from fastdist.random_numbers.generator import Generator

SHAPE = (60, 90)


def values(fill: Callable[[Tensor], Tensor], shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    tensor = fastdist.empty(shape, requires_grad=True)
    assert fill(tensor) is tensor
    assert tensor.grad_fn is None
    return tensor.detach().numpy()


@pytest.mark.parametrize(
    ("fill", "bound"),
    [
        (lambda t: init.uniform_(t, -2.0, 2.0), 2.0),
        (init.xavier_uniform_, math.sqrt(6 / 150)),
        (lambda t: init.xavier_uniform_(t, gain=3.0), 3 * math.sqrt(6 / 150)),
        (init.kaiming_uniform_, math.sqrt(6 / 90)),
        (lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)), math.sqrt(1 / 90)),
        (lambda t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="relu"), math.sqrt(0.1)),
    ],
)
def test_even_values_fill_their_bounds(fill: Callable[[Tensor], Tensor], bound: float) -> None:
    drawn = values(fill)
    assert 0.99 * bound < np.abs(drawn).max() <= bound
    assert drawn.std() == pytest.approx(bound / math.sqrt(3), rel=0.03)


@pytest.mark.parametrize(
    ("fill", "deviation"),
    [
        (lambda t: init.normal_(t, 0.0, 3.0), 3.0),
        (init.xavier_normal_, math.sqrt(2 / 150)),
        (init.kaiming_normal_, math.sqrt(2 / 90)),
        (lambda t: init.kaiming_normal_(t, nonlinearity="tanh"), 5 / 3 / math.sqrt(90)),
    ],
)
def test_normal_values_have_their_deviation(
    fill: Callable[[Tensor], Tensor], deviation: float
) -> None:
    drawn = values(fill)
    assert drawn.std() == pytest.approx(deviation, rel=0.04)
    assert abs(drawn.mean()) < 0.06 * deviation


def test_truncated_normal_values_stay_inside() -> None:
    drawn = values(lambda t: init.trunc_normal_(t, 0.0, 1.0, -1.0, 0.5))
    assert drawn.min() >= -1.0
    assert drawn.max() <= 0.5


def _distribution(z: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the cumulative distribution at each z of a normal truncated to positive bounds."""

    def above(x: float) -> float:
        # The tail probability divided by the density at `low`, so that it does not underflow.
        return math.exp(0.5 * (low * low - x * x)) / (x + 1 / (x + 2 / (x + 3 / (x + 4 / x))))

    whole = above(low) - above(high)
    return np.array([(above(low) - above(float(x))) / whole for x in z])


@pytest.mark.parametrize(
    ("mean", "std", "a", "b"),
    [
        (0.0, 1.0, 100.0, 101.0),
        (0.0, 1.0, 6.0, math.inf),
        (0.0, 1.0, -8.5, -8.0),
        (1000.0, 1.0, -2.0, 2.0),
        (5.0, 0.01, -math.inf, 4.0),
    ],
)
@pytest.mark.parametrize("dtype", [fastdist.float32, fastdist.float64, fastdist.bfloat16])
def test_truncated_normal_values_far_from_the_mean_follow_the_law_of_the_tail(
    mean: float, std: float, a: float, b: float, dtype: fastdist.dtype
) -> None:
    tensor = fastdist.empty(2000, dtype=dtype)
    init.trunc_normal_(tensor, mean, std, a, b, generator=Generator().manual_seed(5))
    drawn = tensor.double().numpy()
    assert drawn.min() >= a and drawn.max() <= b
    if dtype is fastdist.float64:
        ends = sorted(abs((end - mean) / std) for end in (a, b))
        z = np.sort(np.abs((drawn - mean) / std))
        distance = np.abs(_distribution(z, ends[0], min(ends[1], 1e3)) - np.arange(2000) / 2000)
        assert distance.max() < 0.036  # about one seed in a hundred exceeds this bound


@pytest.mark.parametrize(("a", "b"), [(0.4, 0.6), (-0.2, 0.9), (0.7, 0.8), (0.4, 3.0), (-1e9, 1.0)])
def test_truncated_normal_values_follow_the_normal_law_near_the_mean(a: float, b: float) -> None:
    tensor = fastdist.empty(2000, dtype=fastdist.float64)
    init.trunc_normal_(tensor, 0.0, 1.0, a, b, generator=Generator().manual_seed(5))
    drawn = np.sort(tensor.numpy())
    below = np.array([math.erf(x / math.sqrt(2)) for x in (a, *drawn, b)])
    expected = (below[1:-1] - below[0]) / (below[-1] - below[0])
    assert a <= drawn[0] and drawn[-1] <= b
    assert np.abs(expected - np.arange(2000) / 2000).max() < 0.036


def test_truncated_normal_values_between_equal_bounds_are_these() -> None:
    assert (values(lambda t: init.trunc_normal_(t, 0.0, 1.0, 9.0, 9.0)) == 9.0).all()


@pytest.mark.parametrize(
    ("mean", "std", "a", "b"),
    [
        (0.0, 1.0, 2.0, 1.0),
        (0.0, 0.0, -1.0, 1.0),
        (0.0, math.inf, -1.0, 1.0),
        (math.inf, 1.0, -1.0, 1.0),
        (math.nan, 1.0, -1.0, 1.0),
        (0.0, math.nan, -1.0, 1.0),
        (0.0, 1.0, math.nan, 1.0),
        (0.0, 1.0, -1.0, math.nan),
    ],
)
def test_truncated_normal_values_that_cannot_be_are_refused(
    mean: float, std: float, a: float, b: float
) -> None:
    with pytest.raises(ValueError, match="trunc_normal_: there is no probability in"):
        init.trunc_normal_(fastdist.empty(3), mean, std, a, b)


def test_constants_and_the_identity() -> None:
    assert (values(lambda t: init.constant_(t, 4.0)) == 4.0).all()
    assert (values(init.ones_) == 1.0).all()
    assert (values(init.zeros_) == 0.0).all()
    assert values(init.eye_, (2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 5)])
def test_orthogonal_rows_or_columns(shape: tuple[int, int]) -> None:
    drawn = values(init.orthogonal_, shape)
    product = drawn @ drawn.T if shape[0] <= shape[1] else drawn.T @ drawn
    assert product == pytest.approx(np.eye(min(shape)), abs=1e-5)


def test_a_generator_of_its_own_decides_alone() -> None:
    first = values(lambda t: init.uniform_(t, generator=Generator().manual_seed(7)))
    fastdist.manual_seed(1)
    second = values(lambda t: init.uniform_(t, generator=Generator().manual_seed(7)))
    assert (first == second).all()


def test_filling_counts_as_a_change_in_place() -> None:
    tensor = fastdist.empty(2, 2)
    version = tensor._version
    assert init.zeros_(tensor)._version == version + 1


def test_fans_count_the_field_of_a_convolution() -> None:
    assert init.fans(fastdist.empty(8, 3, 5, 5)) == (75, 200)


def test_what_has_no_fans_is_refused() -> None:
    with pytest.raises(ValueError, match="Fan in and fan out can not be computed"):
        init.xavier_uniform_(fastdist.empty(3))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="Unsupported nonlinearity sine"):
        init.calculate_gain("sine")
    with pytest.raises(ValueError, match="Mode fan_up not supported"):
        init.kaiming_normal_(fastdist.empty(2, 2), mode="fan_up")


def test_dirac_gives_channels_on() -> None:
    x = fastdist.randn(1, 2, 5)
    layer = nn.Conv1d(2, 2, 3, padding=1, bias=False)
    assert init.dirac_(layer.weight) is layer.weight and layer(x).equal(x)
    grouped = init.dirac_(fastdist.empty(4, 2, 3, 3), groups=2)
    assert grouped.sum().item() == 4.0 and grouped[3, 1, 1, 1].item() == 1.0
    with pytest.raises(ValueError, match="Only tensors with 3, 4, or 5 dimensions"):
        init.dirac_(fastdist.empty(2, 2))
    with pytest.raises(ValueError, match="dim 0 must be divisible by groups"):
        init.dirac_(fastdist.empty(3, 2, 1), groups=2)


def test_sparse_has_so_many_zeros_in_each_column() -> None:
    found = init.sparse_(fastdist.empty(10, 4), sparsity=0.25, std=2.0)
    assert (found == 0).sum(0).tolist() == [3] * 4 and found.std().item() > 0.5
    with pytest.raises(ValueError, match="Only tensors with 2 dimensions are supported"):
        init.sparse_(fastdist.empty(2, 2, 2), 0.1)


def test_tensors_without_elements_are_left_with_a_warning() -> None:
    for fill in (init.kaiming_uniform_, init.kaiming_normal_):
        with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
            assert fill(fastdist.empty(0, 3)).shape == (0, 3)
