"""Private names of PyTorch's files of modules that packages import."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import fastdist
from fastdist import nn
from fastdist.nn.modules import batchnorm, dropout, module, pooling, rnn, transformer, utils
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
    with pytest.raises(TypeError, match="is not an instance of torch.nn.Module"):
        NamedMemberAccessor(model).swap_submodule("0.0", 3)  # type: ignore[arg-type]
