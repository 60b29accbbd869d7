"""State dicts: keys, shared tensors and errors."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

import fastdist
from fastdist import nn


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1, bias=False))


def test_keys_are_paths() -> None:
    assert list(model().state_dict()) == ["0.weight", "0.bias", "2.weight"]


def test_entries_share_memory_and_stand_outside_of_the_graph() -> None:
    layer = nn.Linear(2, 1)
    entry = layer.state_dict()["weight"]
    assert not entry.requires_grad
    with fastdist.no_grad():
        layer.weight.fill_(5.0)
    assert entry.tolist() == [[5.0, 5.0]]


def test_keep_vars_returns_the_parameters_themselves() -> None:
    layer = nn.Linear(2, 1)
    assert layer.state_dict(keep_vars=True)["weight"] is layer.weight


def test_buffers_are_saved_unless_they_are_not_persistent() -> None:
    module = nn.Module()
    module.register_buffer("kept", fastdist.zeros(1))
    module.register_buffer("left", fastdist.zeros(1), persistent=False)
    assert list(module.state_dict()) == ["kept"]


def test_loading_makes_two_models_equal() -> None:
    first, second = model(), model()
    x = fastdist.ones(4, 2)
    result = second.load_state_dict(first.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert second(x).tolist() == first(x).tolist()


def test_loading_keeps_the_parameters_and_counts_as_a_change() -> None:
    layer = nn.Linear(2, 1)
    weight, version = layer.weight, layer.weight._version
    layer.load_state_dict(nn.Linear(2, 1).state_dict())
    assert layer.weight is weight
    assert weight._version == version + 1


def test_assign_puts_the_given_tensors_in_place() -> None:
    layer = nn.Linear(2, 1)
    weight = fastdist.ones(1, 2, dtype=fastdist.float64)
    layer.load_state_dict({"weight": weight, "bias": fastdist.ones(1)}, assign=True)
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.weight.dtype is fastdist.float64
    assert layer.weight.requires_grad


@pytest.mark.parametrize("frozen", [True, False])
def test_assigned_parameters_learn_if_those_before_did(frozen: bool) -> None:
    layer = nn.Linear(2, 1, bias=False).requires_grad_(not frozen)
    given = nn.Parameter(fastdist.ones(1, 2), requires_grad=frozen)
    layer.load_state_dict({"weight": given}, assign=True)
    assert layer.weight is given and given.requires_grad is not frozen


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(RuntimeError) as caught:
        nn.Linear(2, 3).load_state_dict({"weight": fastdist.ones(2, 2), "x": fastdist.ones(1)})
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Linear:\n"
        '\tMissing key(s) in state_dict: "bias". \n'
        '\tUnexpected key(s) in state_dict: "x". \n'
        "\tsize mismatch for weight: copying a param with shape fastdist.Size([2, 2]) from "
        "checkpoint, the shape in current model is fastdist.Size([3, 2])."
    )


def test_without_strict_mismatched_keys_are_returned() -> None:
    result = nn.Linear(2, 3).load_state_dict({"x": fastdist.ones(1)}, strict=False)
    assert result.missing_keys == ["weight", "bias"]
    assert result.unexpected_keys == ["x"]


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        nn.Linear(1, 1).load_state_dict([1])  # type: ignore[arg-type]


def test_extra_state_is_saved_and_comes_back() -> None:
    class Counting(nn.Module):
        count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    first, second = nn.Sequential(Counting()), nn.Sequential(Counting())
    first[0].count = 3
    assert list(first.state_dict()) == ["0._extra_state"]
    second.load_state_dict(first.state_dict())
    assert second[0].count == 3


def test_a_state_dict_has_the_version_of_each_module() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    found: Any = model.state_dict()
    versions = {"": {"version": 1}, "0": {"version": 2}, "1": {"version": 1}}
    assert dict(found._metadata) == versions
    file = io.BytesIO()
    fastdist.save(found, file)
    file.seek(0)
    assert dict(fastdist.load(file)._metadata) == versions


def test_batch_norm_reads_what_was_saved_before_it_counted_batches() -> None:
    layer = nn.Sequential(nn.BatchNorm1d(2))
    layer[0].num_batches_tracked.fill_(3)
    old: Any = layer.state_dict()
    del old["0.num_batches_tracked"]
    with pytest.raises(RuntimeError, match=r'Missing key.*"0.num_batches_tracked"'):
        layer.load_state_dict(old)
    del old._metadata["0"]
    assert repr(layer.load_state_dict(old)) == "<All keys matched successfully>"
    assert layer[0].num_batches_tracked.item() == 3


def test_instance_norm_explains_running_numbers_of_old_versions() -> None:
    given = dict(nn.InstanceNorm1d(2, track_running_stats=True).state_dict())
    del given["num_batches_tracked"]
    with pytest.raises(RuntimeError, match=r'stats buffer\(s\) "running_mean" and "running_var"'):
        nn.InstanceNorm1d(2).load_state_dict(given)


class Renamed(nn.Module):
    """A module whose version 2 renames an entry of version 1 and saves one number more."""

    _version = 2

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(fastdist.zeros(2))
        self.told: list[Any] = []

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}scale"] = 2.0

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        self.told.append(local_metadata.get("version"))
        if local_metadata.get("version", 1) < 2:
            state_dict[f"{prefix}weight"] = state_dict.pop(f"{prefix}w")
        state_dict.pop(f"{prefix}scale", None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def test_a_class_reads_what_its_older_versions_saved() -> None:
    model = nn.Sequential(Renamed())
    own = model[0]
    assert isinstance(own, Renamed)
    model.load_state_dict({"0.w": fastdist.ones(2)})
    assert own.weight.tolist() == [1.0, 1.0]
    saved = model.state_dict()
    assert saved["0.scale"] == 2.0
    model.load_state_dict(saved)
    assert own.told == [None, 2]


def test_an_old_hook_may_give_another_state_dict() -> None:
    model = nn.Linear(1, 1)
    model._register_state_dict_hook(lambda module, entries, prefix, metadata: {"all": metadata})
    assert model.state_dict() == {"all": {"version": 1}}


def test_an_assigned_buffer_is_registered_and_saved_if_persistent() -> None:
    module = nn.Module()
    module.kept = nn.Buffer(fastdist.ones(2))
    module.left = nn.Buffer(fastdist.ones(2), persistent=False)
    assert [name for name, _ in module.named_buffers()] == ["kept", "left"]
    assert list(module.state_dict()) == ["kept"]
    same = copy.deepcopy(module)
    assert isinstance(same.kept, nn.Buffer) and list(same.state_dict()) == ["kept"]
    assert type(module.kept + 1) is fastdist.Tensor and not module.kept.requires_grad
