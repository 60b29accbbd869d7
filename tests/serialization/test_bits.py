"""Conjugated and negated views in PyTorch's files: the metadata of a tensor marks them."""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

import pytest

import fastdist
from fastdist import nn
from fastdist.serialization import safe_globals

from . import forging
from .forging import Added, archive_of, joined, named, number, storage, table, text
from .old_files import legacy, stored

NUMBERS = struct.pack("<4f", 1, 2, 3, 0)
CONJ, NEG = table(conj=b"\x88"), table(neg=b"\x88")
ONE = joined(number(2)), joined(number(1))


def conjugated(metadata: bytes = CONJ, place: bytes | None = None) -> bytes:
    """Return the opcodes of [1 + 2j, 3], whose conjugate is stored."""
    place = place or storage("ComplexFloat", 2)
    made_of = joined(place, number(0), *ONE, b"\x89", forging.ORDERED, metadata)
    return named("torch._utils", "_rebuild_tensor_v2") + made_of + b"R"


def negated(metadata: bytes = NEG, requires_grad: bytes = b"\x89") -> bytes:
    """Return the opcodes of [2., 0.], stored negated as every second of four numbers."""
    strides = joined(number(2)), joined(number(2))
    made_of = joined(storage(), number(1), *strides, requires_grad, forging.ORDERED, metadata)
    return named("torch._utils", "_rebuild_tensor_v2") + made_of + b"R"


def conjugated_over_bytes(metadata: bytes) -> bytes:
    """Return the opcodes of [1 + 2j, 3] over a storage of bytes, with given metadata."""
    kind = named("torch.storage", "UntypedStorage")
    place = joined(text("storage"), kind, text("0"), text("cpu"), number(16)) + b"Q"
    dtype = named("torch", "complex64")
    made_of = joined(place, number(0), *ONE, b"\x89", forging.ORDERED, dtype, metadata)
    return named("torch._utils", "_rebuild_tensor_v3") + made_of + b"R"


def load(pickled: bytes, **options: Any) -> Any:
    return fastdist.load(archive_of(forging.START + pickled + b".", r0=NUMBERS), **options)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("opcodes", [conjugated, conjugated_over_bytes])
def test_conjugates_are_read(opcodes: Any, weights_only: bool) -> None:
    found = load(opcodes(CONJ), weights_only=weights_only)
    assert found.is_conj() and found.tolist() == [1 - 2j, 3 - 0j]
    for metadata in (b"N", b"}", table(conj=b"\x89", neg=b"\x89")):
        found = load(opcodes(metadata), weights_only=weights_only)
        assert not found.is_conj() and found.tolist() == [1 + 2j, 3]


@pytest.mark.parametrize("weights_only", [True, False])
def test_negatives_are_read(weights_only: bool) -> None:
    found = load(negated(), weights_only=weights_only)
    assert found.is_neg() and found.tolist() == [-2.0, 0.0]
    leaf = load(negated(requires_grad=b"\x88"), weights_only=weights_only)
    assert leaf.is_leaf and leaf.requires_grad
    (leaf * leaf).sum().backward()
    assert leaf.grad.tolist() == [-4.0, 0.0]


@pytest.mark.parametrize("weights_only", [True, False])
def test_conjugates_in_files_before_1_6_are_read(weights_only: bool) -> None:
    value = conjugated(place=stored("ComplexFloat", "a", 2))
    content = legacy(value, {"a": (2, NUMBERS)})
    assert fastdist.load(io.BytesIO(content), weights_only=weights_only).tolist() == [1 - 2j, 3]


def test_views_share_memory_with_what_they_are_views_of() -> None:
    plain, view = load(joined(conjugated(b"N"), conjugated()))
    plain[1] = 5j
    assert view.tolist() == [1 - 2j, -5j]


def test_other_kinds_of_tensors_hold_the_conjugates() -> None:
    made = load(forging.parameter(b"N", conjugated()))
    assert type(made) is nn.Parameter and made.tolist() == [1 - 2j, 3]
    function = named("torch._utils", "_rebuild_tensor_v2")
    made_of = conjugated().removeprefix(function)[:-1]
    for kind, name in ((Added, forging.SAFE), (None, named("torch._tensor", "Tensor"))):
        parts = function, name, made_of, table(mine=number(7))
        pickled = named("torch._tensor", "_rebuild_from_type_v2") + joined(*parts) + b"R"
        with safe_globals([Added]):
            found = load(pickled)
        assert found.tolist() == [1 - 2j, 3] and found.mine == 7
        assert kind is None or type(found) is kind


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    "metadata",
    [
        *(number(1), b"]", joined(CONJ), table(conj=number(1)), table(other=b"\x88")),
        *(table(conj=b"\x88", neg=b"\x88"), b"}(" + number(1) + b"\x88u"),
    ],
)
def test_other_metadata_are_refused(metadata: bytes, weights_only: bool) -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"metadata of a tensor are|cannot be a view"):
        load(conjugated(metadata), weights_only=weights_only)


def test_real_numbers_have_no_conjugate_bit() -> None:
    with pytest.raises(pickle.UnpicklingError, match="cannot be a view with conj"):
        load(negated(CONJ))


def test_parameters_of_one_large_view_are_not_copied_without_end() -> None:
    # Each parameter would take 8 MB, although the file has 16 bytes for it.
    numbers = joined(number(1 << 20)), joined(number(0))
    made_of = joined(
        storage("ComplexFloat", 2), number(0), *numbers, b"\x89", forging.ORDERED, CONJ
    )
    view = named("torch._utils", "_rebuild_tensor_v2") + made_of + b"R"
    with pytest.raises(pickle.UnpicklingError, match="far more copies of tensors"):
        load(forging.parameter(b"N", view))
    with pytest.raises(pickle.UnpicklingError, match="far more copies of tensors"):
        load(named("torch.nn.parameter", "Parameter") + joined(view) + b"R")
    with pytest.raises(pickle.UnpicklingError, match="far more copies of tensors"):
        load(named("torch._utils", "_rebuild_parameter") + joined(view, b"\x89", b"N") + b"R")
