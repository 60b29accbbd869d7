"""Some dtypes exist only as names: no tensor can have them."""

from __future__ import annotations

import copy
import pickle

import pytest

import fastdist as fd
from fastdist.core.named_dtypes import NAMED


@pytest.mark.parametrize("name", NAMED)
def test_a_name_compares_prints_and_pickles(name: str) -> None:
    dtype = getattr(fd, name)
    assert isinstance(dtype, fd.dtype) and repr(dtype) == f"fastdist.{name}"
    assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype
    assert dtype.itemsize in (1, 2, 4) and dtype is not fd.uint8


@pytest.mark.parametrize("name", ["quint8", "bits8", "uint4", "float4_e2m1fn_x2"])
def test_no_tensor_is_made_and_the_error_says_what_to_do(name: str) -> None:
    dtype = getattr(fd, name)
    for make in (lambda: fd.zeros(2, dtype=dtype), lambda: fd.ones(2).to(dtype)):
        with pytest.raises(NotImplementedError, match=f"no tensor of .*{name} .*(keep|compute)"):
            make()


def test_some_have_a_second_name() -> None:
    assert fd.bit is fd.uint1 and fd.chalf is fd.complex32
    assert fd.complex32.is_complex and not fd.complex32.is_floating_point
