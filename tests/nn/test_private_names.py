"""Private names of PyTorch's module files that packages import."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import fastdist
from fastdist import nn
from fastdist.nn.modules import batchnorm, dropout, module, pooling, rnn, transformer, utils
from fastdist.nn.utils import stateless
from fastdist.nn.utils._named_member_accessor import NamedMemberAccessor


def test_tuples_are_made_of_numbers_and_of_iterables() -> None:
    assert utils._pair(3) == (3, 3)
    assert utils._triple(range(3)) == (0, 1, 2)
    assert utils._ntuple(2)("ab") == ("a", "b")
    assert utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)


def test_missing_sizes_are_those_of_the_last_axes() -> None:
    assert utils._list_with_default([None, 5], [7, 8, 9]) == [8, 5]
    assert utils._list_with_default(4, [7, 8]) == 4
    with pytest.raises(ValueError, match="at least 3"):
        utils._list_with_default([None, 5], [7, 8])


def test_a_prefix_is_taken_from_keys_and_metadata() -> None:
    state: Any = OrderedDict({"module.a": 1, "b": 2})
    state._metadata = OrderedDict({"": "wrapper", "module": "model", "module.a": "child"})
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert dict(state) == {"b": 2, "a": 1}
    assert dict(state._metadata) == {"": "model", "a": "child"}


def test_bases_of_modules_have_their_private_names() -> None:
    assert issubclass(nn.BatchNorm2d, batchnorm._NormBase)
    assert issubclass(nn.Dropout, dropout._DropoutNd)
    assert issubclass(nn.MaxPool2d, pooling._MaxPoolNd)
    assert module._EXTRA_STATE_KEY_SUFFIX == "_extra_state"


def test_a_loaded_module_reports_its_keys_in_the_private_class() -> None:
    found = nn.Linear(1, 1).load_state_dict({}, strict=False)
    assert isinstance(found, module._IncompatibleKeys)
    assert found.missing_keys == ["weight", "bias"]


def test_helpers_of_transformers_and_rnns_work() -> None:
    layers = transformer._get_clones(nn.Linear(1, 1), 2)
    assert len(layers) == 2 and layers[0].weight is not layers[1].weight
    assert transformer._get_activation_fn("relu") is nn.functional.relu
    order = fastdist.tensor([1, 0])
    assert rnn._apply_permutation(fastdist.tensor([[1, 2]]), order).tolist() == [[2, 1]]
    with pytest.warns(FutureWarning, match="index_select"):
        rnn.apply_permutation(fastdist.tensor([[1, 2]]), order)


def test_init_has_the_fans_and_the_fills_under_private_names() -> None:
    weight = fastdist.empty(4, 3, 2)
    assert nn.init._calculate_fan_in_and_fan_out(weight) == (6, 8)
    assert nn.init._calculate_correct_fan(weight, "fan_out") == 8
    assert nn.init._no_grad_fill_(weight, 2.0) is weight
    assert nn.init._no_grad_zero_(weight).sum().item() == 0.0
    for draw in (
        nn.init._no_grad_uniform_(weight, 3.0, 4.0),
        nn.init._no_grad_trunc_normal_(weight, 3.5, 1.0, 3.0, 4.0),
    ):
        assert 3.0 <= draw.min().item() <= draw.max().item() <= 4.0
    assert nn.init._no_grad_normal_(weight, 5.0, 0.0).tolist() == [[[5.0, 5.0]] * 3] * 4


def test_annotations_of_a_module_are_types_in_any_namespace() -> None:
    found = nn.ReLU().__annotations__
    assert found["training"] is bool and not any(isinstance(one, str) for one in found.values())


def test_tensors_are_read_and_replaced_by_path() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    access = NamedMemberAccessor(model)
    weight, mean = model[0].weight, model[1].running_mean
    assert access.get_tensor("0.weight") is weight and access.get_submodule("1") is model[1]
    given = fastdist.ones(2, 2)
    before, missing = access.swap_tensors_dict({"0.weight": given, "1.running_mean": given[0]})
    assert before["0.weight"] is weight and before["1.running_mean"] is mean and not missing
    assert model[0].weight is given and model[1].running_mean.tolist() == [1.0, 1.0]
    access.set_tensors_dict(before)
    assert model[0].weight is weight and model[1].running_mean is mean
    assert access.check_keys(["0.weight", "2.x"])[1] == ["2.x"]
    assert "1.running_var" in access.check_keys([])[0]


def test_an_unknown_path_leaves_the_tensors_in_place() -> None:
    model = nn.Linear(2, 2)
    access, weight = NamedMemberAccessor(model), model.weight
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): 'scale'"):
        access.swap_tensors_dict({"weight": fastdist.ones(2, 2), "scale": fastdist.ones(2)})
    assert model.weight is weight and not hasattr(model, "scale")
    with pytest.raises(AttributeError, match="Linear has no attribute `scale`"):
        access.swap_tensor("scale", fastdist.ones(2))
    access.del_tensor("bias")
    assert not hasattr(model, "bias")


def test_a_child_is_replaced_by_path() -> None:
    model = nn.Sequential(nn.Sequential(nn.ReLU()))
    old = model[0][0]
    assert NamedMemberAccessor(model).swap_submodule("0.0", nn.Tanh()) is old
    assert isinstance(model[0][0], nn.Tanh)
    with pytest.raises(TypeError, match="3 is not an instance of torch"):
        NamedMemberAccessor(model).swap_submodule("0.0", 3)  # type: ignore[arg-type]


def test_a_module_holds_other_tensors_in_a_block() -> None:
    model = nn.Linear(2, 2)
    weight, given = model.weight, fastdist.ones(2, 2)
    with stateless._reparametrize_module(model, {"weight": given}):
        assert model.weight is given
    assert model.weight is weight
    with (
        pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'x'"),
        stateless._reparametrize_module(model, {"x": given}, strict=True),
    ):
        pass


def test_calls_with_and_without_hooks() -> None:
    layer = nn.Identity()
    layer.register_forward_hook(lambda module, args, out: out + 1)
    x = fastdist.zeros(1)
    assert layer._call_impl(x).item() == layer._wrapped_call_impl(x).item() == 1.0
    assert layer._slow_forward(x).item() == 0.0


def test_masks_of_attention_become_numbers() -> None:
    mask = fastdist.tensor([True, False])
    found = nn.functional._canonical_mask(mask, "mask", None, "", fastdist.float32)
    assert found.tolist() == [float("-inf"), 0.0]
    with pytest.raises(AssertionError, match="only bool and floating types of mask"):
        nn.functional._canonical_mask(mask.int(), "mask", None, "", fastdist.float32)
    q = fastdist.zeros(2, 4)
    assert nn.functional._mha_shape_check(q, q, q, None, None, 2) is False
    with pytest.raises(AssertionError, match="key and value must have 2 dimensions"):
        nn.functional._mha_shape_check(q, q[None], q[None], None, None, 2)


def test_options_of_factories() -> None:
    given = {"factory_kwargs": {"device": "cpu"}, "dtype": fastdist.float64}
    assert nn.factory_kwargs(given) == {"device": "cpu", "dtype": fastdist.float64}
    with pytest.raises(TypeError, match="unexpected kwargs"):
        nn.factory_kwargs({"bias": True})
    with pytest.raises(TypeError, match="device specified twice"):
        nn.factory_kwargs({"factory_kwargs": {"device": "cpu"}, "device": "cpu"})


def test_reductions_have_numbers() -> None:
    assert [nn._reduction.get_enum(word) for word in ("none", "mean", "sum")] == [0, 1, 2]
    assert nn._reduction.legacy_get_string(False, True, emit_warning=False) == "sum"
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        nn._reduction.get_enum("some")


def test_members_are_replaced_by_dotted_names() -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    accessor = NamedMemberAccessor(model)
    before, missing = accessor.swap_tensors_dict({"0.weight": fastdist.full((1, 1), 7.0)})
    assert accessor.get_tensor("0.weight").item() == 7.0 and not missing
    accessor.set_tensors_dict(before)
    assert isinstance(model[0].weight, nn.Parameter)
    assert accessor.check_keys(["0.weight", "none"])[1] == ["none"]
    with pytest.raises(AttributeError, match="has no attribute `none`"):
        accessor.swap_tensor("0.none", fastdist.ones(1))
    with nn.utils.stateless._reparametrize_module(model, {"0.bias": fastdist.full((1,), 5.0)}):
        assert model[0].bias.item() == 5.0
    assert isinstance(model[0].bias, nn.Parameter)
