"""Damaged and hostile files raise clear errors and take little memory."""

from __future__ import annotations

import io
import pickle
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

import fastdist

from .forging import archive_of


def tensor_of(
    offset: Any = 0, size: Any = (4,), stride: Any = (1,), numel: Any = 4, key: str = "0"
) -> bytes:
    """Return a pickle of one tensor over a storage of floats; its numbers may be invalid."""

    stream = io.BytesIO()
    pickler = pickle._Pickler(stream, 2)  # type: ignore[attr-defined]
    write = pickler.write
    write(pickle.PROTO + b"\x02" + b"ctorch._utils\n_rebuild_tensor_v2\n(")
    write(b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + _text(key) + _text("cpu"))
    pickler.save(numel)
    write(b"tQ")
    for part in (offset, size, stride, False):
        pickler.save(part)
    write(b"ccollections\nOrderedDict\n)RtR.")
    return stream.getvalue()


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def test_the_maker_of_these_files_makes_sound_ones_too() -> None:
    stream = archive_of(tensor_of(), r0=struct.pack("<4f", 1, 2, 3, 4))
    assert fastdist.load(stream).tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"size": (5,)}, "out of bounds for storage of size 16"),
        ({"stride": (2,)}, "out of bounds for storage of size 16"),
        ({"offset": 1}, "out of bounds for storage of size 16"),
        ({"offset": -1}, "invalid storage offset -1"),
        ({"stride": (-1,)}, "must not be negative"),
        ({"size": (-4,)}, "must not be negative"),
        ({"size": (2**62,)}, "out of bounds"),
        ({"size": (2**40, 2**40), "stride": (2**40, 2**40)}, "out of bounds"),
        ({"numel": 5}, "should hold 20 bytes, and its record in the file has 16"),
        ({"numel": 2**50}, "the file is damaged"),
        ({"numel": -1}, "the file is damaged"),
        ({"key": "1"}, "it has no record 'data/1'"),
        ({"key": "../data.pkl"}, "it has no record"),
        ({"size": (1.5,)}, "ints for its sizes"),
        ({"size": (True,)}, "ints for its sizes"),
        ({"size": (1,) * 65, "stride": (1,) * 65}, "at most 64 axes"),
        ({"size": 4}, "is called with arguments that it does not take"),
        ({"numel": "4"}, "a storage is not written as"),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_tensors_that_leave_their_storage_are_errors(
    given: dict[str, Any], text: str, weights_only: bool
) -> None:
    stream = archive_of(tensor_of(**given), r0=bytes(16))
    if not weights_only and "does not take" in text:
        text = "."
    with pytest.raises((RuntimeError, pickle.UnpicklingError, TypeError), match=text):
        fastdist.load(stream, weights_only=weights_only)


def _nested(levels: int) -> bytes:
    return b"\x80\x02" + b"]" * levels + b"a" * (levels - 1) + b"."


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("pickled", "text"),
    [
        (b"cos\nsystem\nX\x02\x00\x00\x00id\x85R.", "os.system, and what os has is never called"),
        (b"cbuiltins\neval\nX\x01\x00\x00\x001\x85R.", "GLOBAL builtins.eval was not an allowed"),
        (b"ctorch\nload\n.", "GLOBAL torch.load was not an allowed"),
        (b"cbuiltins\nint\nX\x01\x00\x00\x001\x85R.", "is named, but may not be called"),
        (b"ccollections\nOrderedDict\n.\x00", None),
        (_nested(100_000), "nest more than 500 deep"),
        (b")" + b"\x85" * 100_000 + b"}q\x000h\x00s.", "cut off"),
        (b"}" + b")" + b"\x85" * 100_000 + b"Ns.", "too large, or too deep"),
        (b"}" + b")" + b"q\x00h\x00\x86" * 200 + b"Ns.", "too large, or too deep"),
        (b"]q\x00h\x00a.", "a container contains itself"),
        (b"\x8e" + b"\xff" * 8 + b".", "cut off"),
        (b"X\xff\xff\xff\x7f.", "cut off"),
        (b"h\x05.", "takes more than it holds"),
        (b"r\xff\xff\xff\x7f.", "takes more than it holds"),
        (b"u.", "takes more than it holds"),
        (b"}]Ns.", "list cannot be a key"),
        (b"K\x01}b.", "nothing can be put into a value of int"),
        (b"cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "bytes are written as text in latin1"),
        (b"\x80\x09N.", "protocol 9"),
        (b"i.", "Unsupported operand 105"),
    ],
)
def test_pickles_that_no_save_writes_are_errors(pickled: bytes, text: str | None) -> None:
    stream = archive_of(pickled)
    if text is None:
        fastdist.load(stream)
        return
    with pytest.raises(pickle.UnpicklingError, match=text):
        fastdist.load(stream)


def _many_sets() -> bytes:
    # The pickle has a list of 10,000 numbers, and 10,000 sets of that list.
    numbers = b"".join(b"M" + struct.pack("<H", n) for n in range(10_000))
    return b"](" + numbers + b"eq\x000" + b"](" + b"cbuiltins\nset\nh\x00\x85R" * 10_000 + b"e."


def _many_bytes() -> bytes:
    text = (
        b"X" + struct.pack("<I", 100_000) + b"a" * 100_000 + b"q\x00" + _text("latin1") + b"q\x01"
    )
    return b"](" + text + b"c_codecs\nencode\nh\x00h\x01\x86R" * 10_000 + b"e."


@pytest.mark.one_in(3)
@pytest.mark.parametrize("make", [_many_sets, _many_bytes, lambda: _nested(300_000)])
def test_small_files_do_not_take_much_memory(make: Callable[[], bytes]) -> None:
    pickled = make()
    stream = archive_of(pickled)
    tracemalloc.start()
    try:
        with pytest.raises(pickle.UnpicklingError):
            fastdist.load(stream)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4_000_000 + 150 * len(pickled)


@pytest.fixture(scope="module")
def sound() -> bytes:
    stream = io.BytesIO()
    fastdist.save({"x": fastdist.arange(500.0), "y": fastdist.ones(3), "n": [1, 2]}, stream)
    return stream.getvalue()


def test_a_file_that_is_cut_off_anywhere_is_an_error(sound: bytes) -> None:
    numbers = random.Random(0)
    for length in {*range(1, 80), *(numbers.randrange(len(sound)) for _ in range(200))}:
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            fastdist.load(io.BytesIO(sound[:length]))


def test_any_flipped_bit_of_the_data_is_an_error(sound: bytes) -> None:
    numbers = random.Random(0)
    start = sound.index(struct.pack("<2f", 1.0, 2.0))
    for _ in range(100):
        damaged = bytearray(sound)
        damaged[numbers.randrange(start, start + 1900)] ^= 1 << numbers.randrange(8)
        with pytest.raises(RuntimeError, match="some bits have changed since it was written"):
            fastdist.load(io.BytesIO(bytes(damaged)))


def test_any_flipped_bit_elsewhere_is_an_error_or_changes_nothing(sound: bytes) -> None:
    numbers = random.Random(1)
    wanted = fastdist.load(io.BytesIO(sound))
    for _ in range(600):
        damaged = bytearray(sound)
        damaged[numbers.randrange(len(sound))] ^= 1 << numbers.randrange(8)
        try:
            found = fastdist.load(io.BytesIO(bytes(damaged)))
        except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError):
            continue
        assert found["x"].tolist() == wanted["x"].tolist() and found["n"] == wanted["n"]


def test_records_that_all_lie_in_one_place_are_an_error() -> None:
    # The table of the archive refers to the same 100,000 bytes a hundred times.
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02N.")
        archive.writestr("a/data/0", bytes(100_000))
        first = archive.infolist()[1]
        for number in range(1, 100):
            twin = zipfile.ZipInfo(f"a/data/{number}")
            for field in ("CRC", "compress_size", "file_size", "header_offset"):
                setattr(twin, field, getattr(first, field))
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
    stream.seek(0)
    with pytest.raises(RuntimeError, match="its records overlap"):
        fastdist.load(stream)


def test_zip_archives_of_other_kinds_are_told() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("readme", b"text")
    stream.seek(0)
    with pytest.raises(RuntimeError, match="it is another kind of zip archive"):
        fastdist.load(stream)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\x80\x02N.")
    packed.seek(0)
    with pytest.raises(RuntimeError, match="compressed or encrypted"):
        fastdist.load(packed)
