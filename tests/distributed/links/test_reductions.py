"""The arithmetic of reductions, for every dtype and in the order of the members."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fastdist.distributed.links.reductions import combine, require_reducible
from fastdist.distributed.process_group.transport import REDUCTIONS

NARROW = ("int2", "uint2", "int4", "uint4", "float8_e4m3fn", "float8_e5m2", "bfloat16")
WIDE = ("?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16")


@pytest.mark.parametrize("name", [*NARROW, *WIDE])
def test_sums_and_products_of_every_type(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name) if name in NARROW else name)
    arrays = [np.array(one).astype(dtype) for one in ([1, 0, 1], [0, 0, 1], [0, 1, 1])]
    for op, wanted in (("sum", [1, 1, 3]), ("product", [0, 0, 1])):
        require_reducible(op, dtype)
        out = np.empty(3, dtype)
        combine(op, arrays, out)
        assert out.tolist() == np.array(wanted).astype(dtype).tolist()


def test_arrays_are_taken_in_their_order_and_the_first_may_be_the_result() -> None:
    arrays = [np.array([one], np.float32) for one in (1e8, -1e8, 1.0, 2.0)]
    out = np.empty(1, np.float32)
    combine("sum", arrays, out)
    assert out == 3.0
    combine("sum", arrays[::-1], out)
    assert out == 0.0
    combine("sum", arrays, arrays[0])
    assert arrays[0] == 3.0
    combine("sum", [out], arrays[1])
    assert arrays[1] == 0.0


def test_narrow_floats_are_rounded_once() -> None:
    arrays = [np.array([one], ml_dtypes.bfloat16) for one in (256.0, 1.0, 1.0)]
    out = np.empty(1, ml_dtypes.bfloat16)
    combine("sum", arrays, out)
    assert float(out[0]) == 258.0  # in bfloat16, 256 + 1 is 256


def test_every_reduction_of_the_interface_is_known() -> None:
    for op in REDUCTIONS:
        require_reducible(op, np.dtype("i4"))
    for op in ("band", "bor", "bxor"):
        with pytest.raises(TypeError, match="only integers and bool"):
            require_reducible(op, np.dtype("f4"))
    with pytest.raises(TypeError, match="complex numbers have no order"):
        require_reducible("min", np.dtype("c8"))
    with pytest.raises(ValueError, match="reduction is 'avg'"):
        require_reducible("avg", np.dtype("f4"))


def test_bits() -> None:
    arrays = [np.array([12, 10], np.uint8), np.array([10, 3], np.uint8)]
    for op, wanted in (("band", [8, 2]), ("bor", [14, 11]), ("bxor", [6, 9])):
        out = np.empty(2, np.uint8)
        combine(op, arrays, out)
        assert out.tolist() == wanted
