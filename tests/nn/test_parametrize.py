"""Parameters computed from other parameters, and modules that are called with given tensors."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import fastdist
from fastdist import nn
from fastdist.nn.utils import parametrizations, parametrize
from fastdist.nn.utils.stateless import functional_call


class Symmetric(nn.Module):
    def forward(self, x: fastdist.Tensor) -> fastdist.Tensor:
        return x.triu() + x.triu(1).T

    def right_inverse(self, x: fastdist.Tensor) -> fastdist.Tensor:
        return x.triu()


class Twice(nn.Module):
    def forward(self, x: fastdist.Tensor) -> fastdist.Tensor:
        return 2 * x


def test_a_parametrized_weight_is_computed_and_what_it_is_made_of_learns() -> None:
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    assert layer.weight.equal(layer.weight.T) and type(layer).__name__ == "ParametrizedLinear"
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    layer(fastdist.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad.tril(-1).count_nonzero().item() == 0
    given = fastdist.ones(3, 3)
    layer.weight = given
    assert layer.weight.equal(given)


def test_parametrizations_stand_on_each_other_and_go_together() -> None:
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    for _ in range(2):
        parametrize.register_parametrization(layer, "weight", Twice())
    assert layer.weight.equal(4 * before)
    with pytest.raises(
        RuntimeError, match="parametrization Twice does not implement right_inverse"
    ):
        layer.weight = before
    original = layer.parametrizations.weight.original
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight is original and layer.weight.equal(4 * before)
    assert type(layer) is nn.Linear and list(layer.state_dict()) == ["bias", "weight"]


def test_within_cached_a_tensor_is_computed_once() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "bias", Twice())
    with parametrize.cached(), parametrize.cached():
        assert layer.bias is layer.bias
    assert layer.bias is not layer.bias


def test_a_parametrized_module_is_copied_and_not_pickled() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "bias", Twice())
    other = copy.deepcopy(layer)
    assert other.bias.equal(layer.bias) and other.weight is not layer.weight
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)


def test_what_cannot_be_parametrized_is_told() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized"):
        parametrize.register_parametrization(layer, "q", Twice())
    with pytest.raises(ValueError, match="may not change the shape of the tensor"):
        parametrize.register_parametrization(layer, "weight", nn.Flatten(0))
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")
    made = parametrizations.weight_norm(layer)
    with pytest.raises(ValueError, match="in terms of a sequence of tensors"):
        parametrize.remove_parametrizations(made, "weight", leave_parametrized=False)


@pytest.mark.parametrize(("dim", "shape"), [(0, (4, 1)), (1, (1, 3)), (None, ())])
def test_weight_norm_has_lengths_and_directions(dim: int | None, shape: tuple[int, ...]) -> None:
    layer = nn.Linear(3, 4)
    before = layer.weight.detach().clone()
    parametrizations.weight_norm(layer, dim=dim)
    lengths = layer.parametrizations.weight.original0
    assert lengths.shape == shape
    np.testing.assert_allclose(layer.weight.detach().numpy(), before.numpy(), rtol=1e-6)
    with fastdist.no_grad():
        lengths.mul_(3)
    np.testing.assert_allclose(layer.weight.detach().numpy(), 3 * before.numpy(), rtol=1e-6)
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter)


def test_spectral_norm_brings_the_largest_singular_value_to_1() -> None:
    fastdist.manual_seed(0)
    layer = parametrizations.spectral_norm(nn.Linear(5, 4), n_power_iterations=30)
    names = ["bias", "parametrizations.weight.original", "parametrizations.weight.0._u"]
    assert list(layer.state_dict()) == [*names, "parametrizations.weight.0._v"]
    values = np.linalg.svd(layer.weight.detach().numpy(), compute_uv=False)
    assert values[0] == pytest.approx(1.0, rel=1e-4)
    layer.eval()
    assert layer.weight.equal(layer.weight)
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'q'"):
        parametrizations.spectral_norm(nn.Linear(2, 2), "q")


def test_a_module_is_called_with_other_tensors_and_keeps_its_own() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    weight, mean = model[0].weight, model[1].running_mean
    given = {
        "0.weight": fastdist.ones(2, 3, requires_grad=True),
        "1.running_mean": fastdist.ones(2),
    }
    functional_call(model, given, fastdist.randn(4, 3)).pow(3).sum().backward()
    assert given["0.weight"].grad is not None and weight.grad is None
    assert model[0].weight is weight and model[1].running_mean is mean
    assert mean.tolist() == [0.0, 0.0] and given["1.running_mean"].tolist() != [1.0, 1.0]


def test_tied_weights_are_replaced_together_unless_told_otherwise() -> None:
    model = nn.Sequential(nn.Linear(2, 2, False), nn.Linear(2, 2, False))
    model[1].weight = model[0].weight
    zero, x = {"0.weight": fastdist.zeros(2, 2)}, fastdist.ones(1, 2)
    seen = []
    model[1].register_forward_hook(lambda module, args, out: seen.append(module.weight.abs().sum()))
    functional_call(model, zero, x)
    functional_call(model, zero, x, tie_weights=False)
    assert seen[0].item() == 0 and seen[1].item() > 0


def test_names_that_do_not_fit_are_told_if_strict() -> None:
    layer, x = nn.Linear(2, 2), fastdist.ones(1, 2)
    with pytest.raises(RuntimeError, match=r"Error\(s\) in reparametrizing for Linear:"):
        functional_call(layer, {"weight": layer.weight}, x, strict=True)
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        functional_call(layer, [{"weight": layer.weight}] * 2, x)
    assert functional_call(layer, {"q": layer.weight}, x).equal(layer(x))
