"""ParameterList and ParameterDict."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import fastdist
from fastdist import nn


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(fastdist.ones(shape))


def test_a_list_holds_parameters_in_order_under_their_numbers() -> None:
    held = nn.ParameterList([parameter(2), fastdist.ones(2, 3)])
    held += [parameter(1)]
    held.append("a word")
    assert [name for name, _ in held.named_parameters()] == ["0", "1", "2"]
    assert isinstance(held[1], nn.Parameter) and held[-1] == "a word" and len(held) == 4
    assert [tuple(p.shape) for p in held[:2]] == [(2,), (2, 3)]
    held[0] = fastdist.zeros(4)
    assert repr(held) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [fastdist.float32 of size 4]\n"
        "    (1): Parameter containing: [fastdist.float32 of size 2x3]\n"
        "    (2): Parameter containing: [fastdist.float32 of size 1]\n"
        "    (3): Object of type: str\n)"
    )


def test_a_list_says_what_it_cannot_do() -> None:
    held = nn.ParameterList([parameter(1)])
    with pytest.raises(IndexError, match="index 1 is out of range"):
        held[1]
    with pytest.raises(TypeError, match="should be called with an iterable, but got Tensor"):
        held.extend(fastdist.ones(2))
    with pytest.raises(RuntimeError, match="ParameterList should not be called"):
        held(1)


def test_a_dict_holds_parameters_under_their_names() -> None:
    held = nn.ParameterDict({"b": parameter(2), "a": fastdist.ones(1)})
    assert list(held) == ["a", "b"] and list(held.state_dict()) == ["a", "b"]
    assert list(nn.ParameterDict(OrderedDict(b=parameter(1), a=parameter(1)))) == ["b", "a"]
    assert "a" in held and held.get("c", 3) == 3 and held.setdefault("c", 4) == 4
    assert held.popitem() == ("c", 4) and list(reversed(held)) == ["b", "a"]
    both = held | nn.ParameterDict({"z": parameter(1)})
    assert list(both.keys()) == ["a", "b", "z"] and both["a"] is held["a"]
    assert held.pop("a") is both["a"] and "a" not in held
    held.clear()
    assert len(held) == 0 and repr(held) == "ParameterDict()"
    assert list(held.fromkeys(["x"], 1).items()) == [("x", 1)]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: nn.ParameterDict(5), TypeError, "iterable of key/value pairs, but got int"),
        (lambda: nn.ParameterDict([5]), TypeError, "element #0 should be Iterable"),
        (lambda: nn.ParameterDict([("a", 1, 2)]), ValueError, "element #0 has length 3; 2 is"),
        (lambda: nn.ParameterDict()[3], TypeError, r"not a string \(type is 'int'\)"),
        (lambda: nn.ParameterDict()(1), RuntimeError, "ParameterDict should not be called"),
        (lambda: nn.ParameterDict()["x"], AttributeError, "has no attribute 'x'"),
    ],
)
def test_a_dict_says_what_it_cannot_do(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
