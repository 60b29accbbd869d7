"""The containers Sequential, ModuleList and ModuleDict."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import fastdist
from fastdist import nn


def test_sequential_calls_one_after_the_other() -> None:
    model = nn.Sequential(nn.Flatten(), nn.ReLU())
    assert model(fastdist.tensor([[[-1.0], [2.0]]])).tolist() == [[0.0, 2.0]]


def test_sequential_takes_names() -> None:
    model = nn.Sequential(OrderedDict(first=nn.ReLU(), second=nn.Tanh()))
    assert [name for name, _ in model.named_children()] == ["first", "second"]
    assert model.second is model[1]


def test_sequential_slices_are_sequential_and_share_modules() -> None:
    model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 3))
    tail = model[1:]
    assert isinstance(tail, nn.Sequential)
    assert list(tail) == [model[1], model[2]]
    assert model[-1] is model[2]


def test_an_index_out_of_range_is_refused() -> None:
    with pytest.raises(IndexError, match="index 2 is out of range"):
        nn.Sequential(nn.ReLU(), nn.ReLU())[2]


def test_sequential_grows_shrinks_and_joins() -> None:
    first, second, third = nn.ReLU(), nn.Tanh(), nn.GELU()
    model = nn.Sequential(first).append(third)
    model.insert(1, second)
    assert list(model) == [first, second, third]
    assert model.pop(0) is first
    del model[0]
    assert list(model + nn.Sequential(first)) == [third, first]
    assert [name for name, _ in model.named_children()] == ["0"]


def test_module_list_is_a_list_whose_parameters_are_found() -> None:
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers += [nn.Linear(1, 1)]
    layers.insert(0, nn.ReLU())
    layers[0] = nn.Tanh()
    assert [name for name, _ in layers.named_parameters()] == [
        "1.weight",
        "1.bias",
        "2.weight",
        "2.bias",
    ]
    assert isinstance(layers[1:], nn.ModuleList)
    assert len(layers) == 3


def test_module_dict_is_a_dict_whose_parameters_are_found() -> None:
    heads = nn.ModuleDict({"a": nn.Linear(1, 1, bias=False)})
    heads.update([("b", nn.ReLU())])
    assert list(heads) == list(heads.keys()) == ["a", "b"]
    assert [name for name, _ in heads.named_parameters()] == ["a.weight"]
    assert "b" in heads
    assert heads.pop("b") not in heads.values()


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (nn.Linear(2, 3, bias=False), "Linear(in_features=2, out_features=3, bias=False)"),
        (nn.Sequential(), "Sequential()"),
        (
            nn.Sequential(nn.Flatten(), nn.Sequential(nn.ReLU(inplace=True))),
            """\
Sequential(
  (0): Flatten(start_dim=1, end_dim=-1)
  (1): Sequential(
    (0): ReLU(inplace=True)
  )
)""",
        ),
        (
            nn.ModuleList([nn.Tanh(), nn.Tanh(), nn.ReLU()]),
            "ModuleList(\n  (0-1): 2 x Tanh()\n  (2): ReLU()\n)",
        ),
        (nn.ModuleDict({"a": nn.SiLU()}), "ModuleDict(\n  (a): SiLU()\n)"),
        (
            nn.LayerNorm((3, 4)),
            "LayerNorm((3, 4), eps=1e-05, elementwise_affine=True, bias=True)",
        ),
        (nn.Embedding(5, 3, padding_idx=-1), "Embedding(5, 3, padding_idx=4)"),
        (nn.GELU(), "GELU(approximate='none')"),
        (nn.LogSoftmax(), "LogSoftmax(dim=None)"),
        (nn.Dropout(0.2), "Dropout(p=0.2, inplace=False)"),
        (nn.CrossEntropyLoss(), "CrossEntropyLoss()"),
    ],
)
def test_modules_print_as_in_pytorch(module: nn.Module, text: str) -> None:
    assert repr(module) == text
