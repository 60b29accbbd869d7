"""Dictionaries with weak keys that are compared by identity."""

from __future__ import annotations

import gc

import fastdist as fd
from fastdist.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakTensorKeyDictionary


def test_equal_tensors_are_different_keys_and_freed_ones_vanish() -> None:
    first, second = fd.ones(2), fd.ones(2)
    known = WeakTensorKeyDictionary({first: 1})
    known[second] = 2
    assert known[first] == 1 and known[second] == 2 and len(known) == 2
    reference = TensorWeakRef(second)
    assert reference() is second and 3 not in known
    del second
    gc.collect()
    assert len(known) == 1 and reference() is None and [*known] == [first]
    del known[first]
    assert not known and isinstance(known, WeakIdKeyDictionary)
