"""Clipped gradients, and parameters as one vector."""

from __future__ import annotations

import numpy as np
import pytest

import fastdist
from fastdist import Tensor, nn
from fastdist.nn import utils


def with_gradients(*gradients: list[float]) -> list[Tensor]:
    parameters = []
    for gradient in gradients:
        parameter = fastdist.zeros(len(gradient), requires_grad=True)
        parameter.grad = fastdist.tensor(gradient)
        parameters.append(parameter)
    return parameters


def test_gradients_are_scaled_to_the_largest_norm_allowed() -> None:
    parameters = with_gradients([3.0, 0.0], [4.0])
    total = utils.clip_grad_norm_(parameters, 1.0)
    assert total.item() == 5.0
    assert parameters[0].grad.tolist() == pytest.approx([0.6, 0.0], rel=1e-5)
    assert parameters[1].grad.tolist() == pytest.approx([0.8], rel=1e-5)


def test_small_gradients_stay_as_they_are() -> None:
    parameters = with_gradients([3.0, 4.0])
    utils.clip_grad_norm_(parameters, 6.0)
    assert parameters[0].grad.tolist() == [3.0, 4.0]


def test_other_norms_and_parameters_without_gradient() -> None:
    parameters = [*with_gradients([3.0, -4.0], [5.0]), fastdist.zeros(1)]
    assert utils.clip_grad_norm_(parameters, 100.0, norm_type=float("inf")).item() == 5.0
    assert utils.clip_grad_norm_(parameters, 100.0, norm_type=1.0).item() == 12.0
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0


def test_a_norm_that_is_not_finite_is_an_error_if_asked_for() -> None:
    parameters = with_gradients([float("nan")])
    with pytest.raises(RuntimeError, match=r"The total norm of order 2.0 for gradients"):
        utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)


def test_elements_are_clipped_one_by_one() -> None:
    parameters = with_gradients([3.0, -4.0, 0.5])
    utils.clip_grad_value_(parameters, 1.0)
    assert parameters[0].grad.tolist() == [1.0, -1.0, 0.5]


@pytest.mark.parametrize(("order", "norm"), [(2.0, 13.0), (1.0, 17.0), (float("inf"), 12.0)])
def test_complex_gradients_are_clipped_by_their_sizes(order: float, norm: float) -> None:
    w = fastdist.tensor([3.0 + 4.0j, 12.0j], requires_grad=True)
    w.grad = w.detach().clone()
    total = utils.clip_grad_norm_([w], norm / 2, order)
    assert total.dtype is fastdist.float32 and total.item() == pytest.approx(norm)
    np.testing.assert_allclose(w.grad, w.detach() / 2, 1e-5)


def test_parameters_become_a_vector_and_come_back() -> None:
    first, second = nn.Linear(2, 3), nn.Linear(2, 3)
    vector = utils.parameters_to_vector(first.parameters())
    assert vector.shape == (9,)
    utils.vector_to_parameters(vector, second.parameters())
    assert second.weight.tolist() == first.weight.tolist()
    assert second.bias.tolist() == first.bias.tolist()


def test_gradients_flow_through_the_vector() -> None:
    layer = nn.Linear(1, 1)
    utils.parameters_to_vector(layer.parameters()).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0]]


def test_a_vector_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="vec has 3 elements, the parameters have 2"):
        utils.vector_to_parameters(fastdist.zeros(3), nn.Linear(1, 1).parameters())


def test_skip_init_draws_nothing() -> None:
    fastdist.manual_seed(0)
    layer = nn.utils.skip_init(nn.Linear, 3, 2, dtype=fastdist.float64)
    drawn = fastdist.rand(3)
    fastdist.manual_seed(0)
    assert fastdist.rand(3).equal(drawn)
    assert layer.weight.shape == (2, 3) and layer.bias.dtype is fastdist.float64
    assert nn.init.ones_(layer.weight).sum().item() == 6.0
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg"):
        nn.utils.skip_init(nn.ReLU)
