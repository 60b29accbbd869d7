"""Weights that hooks compute before each call, copied parametrizations, and folded batch norms."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist import nn
from fastdist.nn import utils
from fastdist.nn.utils import parametrizations, parametrize


def test_a_weight_is_a_length_times_a_direction() -> None:
    layer: Any = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    with pytest.warns(FutureWarning, match=r"in favor of `torch.nn.utils.parametrizations.weight"):
        utils.weight_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    assert layer.weight_g.shape == (2, 1)
    with fd.no_grad():
        layer.weight_g.mul_(2)
    layer(fd.ones(1, 3)).sum().backward()
    assert fd.allclose(layer.weight, 2 * before) and layer.weight_g.grad is not None
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="two weight_norm hooks"):
        utils.weight_norm(layer)
    utils.remove_weight_norm(layer)
    assert isinstance(layer.weight, nn.Parameter) and not layer._forward_pre_hooks
    assert fd.allclose(layer.weight, 2 * before)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in"):
        utils.remove_weight_norm(layer)


def test_a_weight_is_divided_by_its_spectral_norm() -> None:
    layer: Any = utils.spectral_norm(nn.Linear(2, 2, bias=False), n_power_iterations=30)
    with fd.no_grad():
        layer.weight_orig.copy_(fd.tensor([[3.0, 0.0], [0.0, 1.0]]))
    layer(fd.ones(1, 2)).sum().backward()
    assert fd.allclose(layer.weight, fd.tensor([[1.0, 0.0], [0.0, 1 / 3]]), atol=1e-5)
    saved: Any = layer.state_dict()
    assert sorted(saved) == ["weight_orig", "weight_u", "weight_v"]
    assert saved._metadata[""]["spectral_norm"] == {"weight.version": 1}
    same: Any = utils.spectral_norm(nn.Linear(2, 2, bias=False))
    same.load_state_dict(saved)
    assert fd.allclose(same.eval()(fd.ones(1, 2)), layer.eval()(fd.ones(1, 2)))
    with pytest.raises(NotImplementedError, match=r"before PyTorch 1\.0"):
        same.load_state_dict({**saved, "weight": saved["weight_orig"]})
    utils.remove_spectral_norm(layer)
    assert list(layer.state_dict()) == ["weight"]
    assert layer.state_dict()._metadata[""] == {"version": 1}


def test_a_transposed_convolution_has_its_outputs_second() -> None:
    layer: Any = utils.spectral_norm(nn.ConvTranspose1d(3, 2, 4))
    assert layer.weight_u.shape == (2,) and layer.weight_v.shape == (12,)


@pytest.mark.parametrize("given", [None, "weight"])
def test_parametrizations_go_over_with_their_originals(given: str | None) -> None:

    class Twice(nn.Module):
        def forward(self, x: Any) -> Any:
            return 2 * x

    first: Any = nn.Linear(3, 2)
    second: Any = nn.Linear(3, 2)
    parametrize.register_parametrization(first, "weight", Twice())
    assert parametrize.transfer_parametrizations_and_params(first, second, given) is second
    assert second.weight.equal(first.weight)
    assert second.parametrizations.weight.original is first.parametrizations.weight.original
    first = parametrizations.weight_norm(nn.Linear(3, 2))
    third: Any = parametrize.transfer_parametrizations_and_params(first, nn.Linear(3, 2), given)
    assert third.weight.equal(first.weight)
    assert third.parametrizations.weight.original1 is first.parametrizations.weight.original1
    plain = nn.Linear(3, 2)
    assert parametrize.transfer_parametrizations_and_params(plain, second) is second


def trained(norm: Any, features: int) -> Any:
    with fd.no_grad():
        for one in (norm.running_mean, norm.weight, norm.bias):
            if one is not None:
                one.copy_(fd.randn(features))
        norm.running_var.copy_(fd.rand(features) + 0.5)
    return norm.eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_a_folded_batch_norm_changes_no_value(bias: bool, affine: bool) -> None:
    fd.manual_seed(0)
    norm = trained(nn.BatchNorm2d(4, affine=affine), 4)
    x = fd.randn(2, 3, 5, 5)
    layers: list[tuple[Any, bool]] = [
        (nn.Conv2d(3, 4, 2, bias=bias), False),
        (nn.ConvTranspose2d(3, 4, 2, bias=bias), True),
    ]
    for layer, transpose in layers:
        fused = utils.fuse_conv_bn_eval(layer.eval(), norm, transpose)
        assert fd.allclose(fused(x), norm(layer(x)), atol=1e-5) and fused is not layer
    linear, flat = nn.Linear(3, 4, bias=bias).eval(), trained(nn.BatchNorm1d(4), 4)
    x = fd.randn(2, 3)
    assert fd.allclose(utils.fuse_linear_bn_eval(linear, flat)(x), flat(linear(x)), atol=1e-5)


def test_batch_norms_that_still_learn_are_not_folded() -> None:
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        utils.fuse_conv_bn_eval(nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1).eval())
    with pytest.raises(AssertionError, match=r"To fuse, linear.out_features == bn.num_features"):
        utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(2).eval())


def as_pytorch_saves(layer: Any) -> dict[str, Any]:
    """Return a module's state as PyTorch saves it, in which hooks are plain functions."""
    state = dict(layer.__dict__)
    for name in ("_forward_hooks", "_forward_pre_hooks"):
        hooks = state[name]
        state[name] = {key: hook.call for key, hook in hooks.items() if not hook.backward}
        state[f"{name}_with_kwargs"] = {k: True for k, hook in hooks.items() if hook.with_kwargs}
    hooks = layer._forward_hooks
    state["_forward_hooks_always_called"] = {k: True for k, h in hooks.items() if h.always_call}
    full = {key: hook.call for key, hook in hooks.items() if hook.backward in ("full", "old")}
    kinds = {hook.backward for hook in hooks.values()}
    state["_is_full_backward_hook"] = True if "full" in kinds else False if full else None
    state["_backward_hooks"] = full
    state["_backward_pre_hooks"] = {k: h.call for k, h in hooks.items() if h.backward == "pre"}
    return state


def loaded(layer: Any) -> Any:
    made = nn.Linear.__new__(nn.Linear)
    made.__setstate__(as_pytorch_saves(layer))
    return made


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_weight_norm_that_pytorch_saved_is_called_and_removed() -> None:
    layer = utils.weight_norm(nn.Linear(3, 2))
    made = loaded(layer)
    with fd.no_grad():
        made.weight_g.mul_(2)
    x = fd.ones(1, 3)
    assert fd.allclose(made(x) - made.bias, 2 * fd.nn.functional.linear(x, layer.weight))
    utils.remove_weight_norm(made)
    assert not made._forward_pre_hooks


def test_a_pruned_layer_that_pytorch_saved_keeps_its_mask() -> None:
    layer = utils.prune.l1_unstructured(nn.Linear(3, 2), "weight", 4)
    made = loaded(layer)
    assert made(fd.ones(1, 3)).tolist() == layer(fd.ones(1, 3)).tolist()
    assert (made.weight == 0).sum() == 4
    utils.prune.remove(made, "weight")
    assert not made._forward_pre_hooks


@pytest.mark.parametrize("kind", ["full", "old"])
def test_hooks_that_pytorch_saved_keep_their_options(kind: str) -> None:
    layer: Any = nn.Linear(3, 2)
    layer.register_forward_pre_hook(print)
    layer.register_forward_pre_hook(max, with_kwargs=True)
    layer.register_forward_hook(min, with_kwargs=True)
    layer.register_forward_hook(print, always_call=True)
    register = {"full": layer.register_full_backward_hook, "old": layer.register_backward_hook}
    register[kind](sum)
    layer.register_full_backward_pre_hook(any)
    made = loaded(layer)
    assert made._forward_pre_hooks == layer._forward_pre_hooks
    assert made._forward_hooks == layer._forward_hooks
    made.__setstate__(dict(made.__dict__))
    assert made._forward_hooks == layer._forward_hooks


def test_a_state_without_hooks_gets_none() -> None:
    made = nn.Linear.__new__(nn.Linear)
    state = dict(nn.Linear(3, 2).__dict__)
    made.__setstate__({key: one for key, one in state.items() if "forward" not in key})
    assert made(fd.ones(1, 3)).shape == (1, 2)
