"""Properties of dtypes and type promotion."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core import dtypes

# The dtypes of torch 2.13, "-" for an error; "0d" and "1d" are the second operand's dimensions.
TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "promotion.json").read_text())
NAMES = TABLE["names"]
PAIRS = [(i, j) for i in range(len(NAMES)) for j in range(len(NAMES))]
HERE = range(len(NAMES))


def told(ask: Any) -> str:
    try:
        return str(ask().name)
    except RuntimeError:
        return "-"


def test_any_two_dtypes_meet_where_pytorch_lets_them_meet() -> None:
    of = [getattr(fd, name) for name in NAMES]
    found = [[told(lambda a=a, b=b: fd.promote_types(a, b)) for b in of] for a in of]
    assert found == TABLE["pairs"]
    casts = ["".join(str(int(fd.can_cast(a, b))) for b in of) for a in of]
    assert casts == TABLE["cast"]


@pytest.mark.parametrize("axes", ["0d", "1d"])
def test_tensors_of_any_two_dtypes_meet_as_pytorch_s(axes: str) -> None:
    shape = () if axes == "0d" else (2,)
    for i in HERE:
        for j in HERE:
            first = fd.ones(2, dtype=getattr(fd, NAMES[i]))
            second = fd.ones(shape, dtype=getattr(fd, NAMES[j]))
            found = told(lambda a=first, b=second: fd.result_type(a, b))
            # fastdist has no complex32.
            expected = TABLE["res"][axes][i][j].replace("complex32", "complex64")
            assert found == expected, (NAMES[i], NAMES[j])


@pytest.mark.parametrize("number", [True, 2, 2.5, 1j])
def test_numbers_lift_tensors_to_their_category_as_pytorch_s(number: complex) -> None:
    expected = TABLE["num"][str(number)]
    for i in HERE:
        for shape, wanted in (((2,), expected[i]), ((), expected[i + len(NAMES)])):
            tensor = fd.ones(shape, dtype=getattr(fd, NAMES[i]))
            found = fd.result_type(tensor, number).name
            assert found == wanted.replace("complex32", "complex64"), (NAMES[i], shape)


def test_uint16_meets_no_other_whole_dtype() -> None:
    few, more = fd.ones(2, dtype=fd.uint16), fd.ones(2, dtype=fd.int32)
    with pytest.raises(RuntimeError, match="attempted to promote UInt16 and Int"):
        few + more


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_wide_unsigned_numbers_are_kept_converted_and_printed(name: str) -> None:
    dtype, top = getattr(fd, name), int(np.iinfo(name).max)
    x = fd.tensor([0, 3, top], dtype=dtype)
    assert x.numpy().dtype == name and fd.from_numpy(x.numpy()).dtype is dtype
    assert x.tolist() == [0, 3, top] and fd.tensor([-1]).to(dtype).item() == top
    assert repr(x[:2]) == f"tensor([0, 3], dtype=fastdist.{name})"
    assert (x * 2)[1].item() == 6 and (x + 1.5).dtype is fd.float32
    assert x.sum().dtype is fd.int64 and x.to(fd.float64)[1].item() == 3.0
    assert (fd.iinfo(dtype).min, fd.iinfo(dtype).max) == (0, top)
    assert not dtype.is_signed and x.type() == f"fastdist.UInt{name[4:]}Tensor"
    with pytest.raises((RuntimeError, ValueError), match=r"cannot be converted to type|Overflow"):
        fd.tensor([top + 1], dtype=dtype)


def test_bfloat16_tells_what_it_holds() -> None:
    limits = fd.finfo(fd.bfloat16)
    assert (limits.bits, limits.eps, limits.tiny) == (16, 2.0**-7, 2.0**-126)
    assert limits.max == 2.0**128 - 2.0**120
    x = fd.tensor([1.0, 0.1, 3e38, float("nan")], dtype=fd.bfloat16)
    assert repr(x[:2]) == "tensor([1.0000, 0.1001], dtype=fastdist.bfloat16)"
    assert x[2].item() == 226 * 2.0**120 and x.element_size() == 2
    assert x.isnan().tolist() == [False, False, False, True]


def test_numpy_is_not_given_bfloat16() -> None:
    x = fd.ones(2, dtype=fd.bfloat16)
    for ask in (x.numpy, lambda: x.numpy(force=True), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
            ask()
    assert x.float().numpy().tolist() == [1.0, 1.0]


def test_both_half_types_together_are_float32() -> None:
    x = fd.ones(3, dtype=fd.float16, requires_grad=True)
    y = fd.full((3,), 3.0, dtype=fd.bfloat16, requires_grad=True)
    product = x * y
    assert product.dtype is fd.float32
    product.sum().backward()
    assert x.grad is not None and x.grad.dtype is fd.float16 and x.grad.tolist() == [3.0] * 3
    assert y.grad is not None and y.grad.dtype is fd.bfloat16 and y.grad.tolist() == [1.0] * 3


def test_a_module_of_bfloat16_trains() -> None:
    fd.manual_seed(0)
    model = fd.nn.Linear(3, 1).bfloat16()
    optimizer = fd.optim.SGD(model.parameters(), lr=0.1)
    x = fd.randn(16, 3, dtype=fd.bfloat16)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert loss.dtype is fd.bfloat16 and losses[-1] < losses[0] / 50


def test_nothing_loads_ml_dtypes_before_bfloat16_is_used() -> None:
    script = """
import sys, fastdist as fd
fd.save({"x": fd.ones(2), "dtype": fd.bfloat16}, "/dev/null"), repr(fd.ones(2).half())
assert "ml_dtypes" not in sys.modules
fd.zeros(2, dtype=fd.bfloat16)
assert "ml_dtypes" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_half_types_compute_in_float32_and_all_others_in_themselves() -> None:
    halves = {one.name: one.computes_in.name for one in dtypes.ALL if one.is_half}
    assert halves == {"float16": "float32", "bfloat16": "float32"}
    assert all(one.computes_in is one for one in dtypes.ALL if not one.is_half)
    assert dtypes.WIDE[dtypes.bfloat16.numpy] == dtypes.WIDE[dtypes.float16.numpy] == "float32"


def test_floating_dtypes_may_have_a_gradient() -> None:
    known = {one.name for one in dtypes.ALL if one.may_have_gradient and not one.is_float8}
    assert known == {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"}


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize("count", [3, 420_000])
def test_many_wide_unsigned_numbers_meet_as_few_do(name: str, count: int) -> None:
    x = fd.full((count,), 40_000, dtype=getattr(fd, name))
    assert (x == x).all() and not (x < x).any() and (x + x).dtype is x.dtype
    assert (x + x)[-1].item() == 80_000 % (int(np.iinfo(name).max) + 1)
    assert (x * 0.5).dtype is fd.float32 and (x * 0.5)[-1].item() == 20_000
    chosen = fd.where(x > 1, x, x - x)
    assert chosen.dtype is x.dtype and chosen[-1].item() == 40_000
