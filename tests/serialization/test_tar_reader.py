"""Files in PyTorch's oldest format: a tar archive of tensors, storages and a pickle."""

from __future__ import annotations

import io
import pickle
import random
import struct
import tarfile
import tracemalloc
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

import fastdist

from .old_files import Key, floats, tar

STORAGES = [(10, "Float", 6, floats(0, 1, 2, 3, 4, 5)), (11, "Long", 2, struct.pack("<2q", 7, 8))]
TENSORS = [(20, 10, [2, 3], [3, 1], 0), (21, 10, [3], [1], 3), (22, 11, [2], [1], 0)]


def made(**given: Any) -> bytes:
    state = OrderedDict(a=Key("20"), b=Key("21"), c=[Key("22"), 5, "text"])
    parts: dict[str, Any] = {"value": state, "storages": STORAGES, "tensors": TENSORS, **given}
    return tar(parts.pop("value"), parts.pop("storages"), parts.pop("tensors"), **parts)


def load(content: bytes, **options: Any) -> Any:
    return fastdist.load(io.BytesIO(content), **options)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_state_dicts_come_back(format: int, weights_only: bool) -> None:
    found = load(made(format=format), weights_only=weights_only)
    assert type(found) is OrderedDict and found["a"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert found["c"][0].dtype is fastdist.int64 and found["c"][1:] == [5, "text"]
    found["a"][1, 0] = 9.0
    assert found["b"].tolist() == [9.0, 4.0, 5.0]


def test_a_file_on_the_disk_loads_and_goes_where_it_should(tmp_path: Path) -> None:
    path = tmp_path / "old.pt"
    path.write_bytes(made())
    found = fastdist.load(path, map_location="sim:1")
    assert str(found["b"].device) == "sim:1" and found["b"].tolist() == [3.0, 4.0, 5.0]
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        fastdist.load(path, mmap=True)


def test_parts_of_storages_share_memory() -> None:
    found = load(
        tar([Key("1"), Key("2")], STORAGES, [(1, 10, [6], [1], 0), (2, 30, [2], [1], 0)],
            views=[(30, 10, 2, 2)])
    )  # fmt: skip
    assert found[1].tolist() == [2.0, 3.0]
    found[0][2] = 8.0
    assert found[1].tolist() == [8.0, 3.0]


def test_code_is_refused() -> None:
    class Code:
        def __reduce__(self) -> Any:
            return eval, ("1",)

    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.eval"):
        load(made(value=Code()))


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"without": ["storages"]}, "a tar archive without storages"),
        ({"without": ["pickle", "tensors"]}, "without pickle, tensors"),
        ({"num_storages": 1 << 40}, "storages in"),
        ({"num_storages": -1}, "-1 storages in"),
        ({"num_storages": 3}, "a storage is not written as"),
        ({"num_storages": "x"}, "'x' storages in"),
        ({"num_tensors": 1 << 40}, "tensors in"),
        ({"num_tensors": 4}, "bytes should follow|is damaged, or cut off"),
        ({"axes": 1 << 30}, "a tensor of 1073741824 axes"),
        ({"axes": -1}, "a tensor of -1 axes"),
        ({"storages": [(10, "Float", 1 << 50, b"")]}, "and .* are left"),
        ({"storages": [(10, "Float", -1, b"")]}, "should hold -4 bytes"),
        ({"storages": [STORAGES[0], STORAGES[0]]}, "two things in the file have the key 10"),
        ({"tensors": [(20, 99, [1], [1], 0)]}, "a tensor is not written as"),
        ({"tensors": [(20, 10, [7], [1], 0)]}, "out of bounds"),
        ({"tensors": [(20, 10, [2], [1 << 61], 0)]}, "out of bounds"),
        ({"tensors": [(20, 10, [2], [1], -1)]}, "invalid storage offset"),
        ({"tensors": [(10, 10, [2], [1], 0)]}, "two things in the file have the key 10"),
        ({"tensors": TENSORS[:2]}, "the file has no tensor '22'"),
        ({"value": Key(("module",))}, "the file has no tensor"),
        ({"value": Key("9" * 100)}, "the file has no tensor"),
        ({"views": [(30, 10, 5, 2)]}, "not a part of a storage"),
        ({"views": [(30, 10, -1, 2)]}, "not a part of a storage"),
        ({"views": [(30, 99, 0, 2)]}, "a part of a storage is not written as"),
        ({"views": [7]}, "a part of a storage is not written as 7"),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_files_that_lie_fail_in_words(
    given: dict[str, Any], words: str, weights_only: bool
) -> None:
    content = made(**given)
    tracemalloc.start()
    try:
        with pytest.raises((RuntimeError, pickle.UnpicklingError), match=words):
            load(content, weights_only=weights_only)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4_000_000


def test_other_archives_and_cut_ones_are_told() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:") as archive:
        entry = tarfile.TarInfo("readme")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"text"))
    with pytest.raises(pickle.UnpicklingError, match="a tar archive without pickle, storages"):
        load(stream.getvalue())
    content = made()
    for length in range(600, len(content.rstrip(b"\0")), 250):
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            load(content[:length])


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_any_flipped_bits_are_an_error_or_change_values_alone(count: int) -> None:
    numbers, content = random.Random(count), made()
    for _ in range(count):
        damaged = bytearray(content)
        for _ in range(numbers.randrange(1, 4)):
            damaged[numbers.randrange(len(damaged))] ^= 1 << numbers.randrange(8)
        try:
            found = load(bytes(damaged))
        except (RuntimeError, pickle.UnpicklingError, ValueError, TypeError, NotImplementedError):
            continue
        assert len(repr(found)) < 5000
