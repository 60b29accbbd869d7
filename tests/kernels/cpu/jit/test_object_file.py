"""Reading object code checks every number: a broken file is rejected with a reason."""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Callable
from typing import Any

import numba
import pytest

from fastdist.kernels.cpu.jit.compiler import compiled
from fastdist.kernels.cpu.jit.kernel_cache import ENTRY
from fastdist.kernels.cpu.jit.machine_code import known_symbols
from fastdist.kernels.cpu.jit.object_emitter import object_of_entry
from fastdist.kernels.cpu.jit.object_file import PAGE, BrokenObjectError, read_object

# Byte offsets in the header of a file, and in the header of a section.
CLASS, TYPE, MACHINE, TABLE, COUNT = 4, 16, 18, 40, 60
KIND, FLAGS, BEGIN, SIZE, LINK, ALIGNMENT, EACH = 4, 8, 24, 32, 40, 48, 56


@functools.cache
def sample() -> bytes:
    """Return an object with code, constants and relocations."""

    @compiled("a sample")  # type: ignore[untyped-decorator]
    def total(x: Any, power: Any) -> Any:
        return x.sum() ** power

    number: Any = numba.float64
    data: bytes = object_of_entry(total, (number[::1], number), exact=False)
    return data


def test_an_object_has_its_entry_and_needs_what_is_known() -> None:
    image = read_object(sample())
    begin, end = image.spans["code"]
    assert begin <= image.symbols[ENTRY] < end
    assert {"pow", "PyFloat_AsDouble"} <= image.undefined() <= known_symbols()
    assert all(bound % PAGE == 0 for span in image.spans.values() for bound in span)


def section_of(data: bytes | bytearray, kind: int) -> int:
    """Return the offset of the header of the first section of a type."""
    [table] = struct.unpack_from("<Q", data, TABLE)
    [count] = struct.unpack_from("<H", data, COUNT)
    places = [table + 64 * i for i in range(count)]
    kinds = [int(struct.unpack_from("<I", data, at + KIND)[0]) for at in places]
    return int(places[kinds.index(kind)])


def changed(at: int, form: str, value: int, section: int | None = None) -> bytes:
    data = bytearray(sample())
    struct.pack_into(form, data, at + (0 if section is None else section_of(data, section)), value)
    return bytes(data)


PROGBITS, SYMTAB, RELA = 1, 2, 4


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda: sample()[:40], "fewer than an ELF header"),
        (lambda: sample()[:-1], "of"),
        (lambda: b"MZ" + sample()[2:], "not a relocatable ELF file for x86-64"),
        (lambda: changed(CLASS, "<B", 1), "not a relocatable ELF file"),
        (lambda: changed(TYPE, "<H", 3), "not a relocatable ELF file"),
        (lambda: changed(MACHINE, "<H", 183), "not a relocatable ELF file"),
        (lambda: changed(COUNT, "<H", 0), "0 sections"),
        (lambda: changed(TABLE, "<Q", 1 << 63), "table of sections begins"),
        (lambda: changed(SIZE, "<Q", 1 << 40, SYMTAB), "ends outside"),
        (lambda: changed(EACH, "<Q", 0, SYMTAB), "table of symbols"),
        (lambda: changed(LINK, "<I", 1 << 20, SYMTAB), "names are in section"),
        (lambda: changed(EACH, "<Q", 16, RELA), "in entries of 16"),
        (lambda: changed(ALIGNMENT, "<Q", 3, PROGBITS), "alignment at 3"),
        (lambda: changed(ALIGNMENT, "<Q", 1 << 20, PROGBITS), "alignment at"),
        (lambda: changed(FLAGS, "<Q", 7, PROGBITS), "code that may be written to"),
        (lambda: changed(FLAGS, "<Q", 0x402, PROGBITS), "has type 1 and flags 0x402"),
        (lambda: changed(KIND, "<I", 6, PROGBITS), "has type 6"),
    ],
)  # fmt: skip
def test_a_wrong_number_is_refused_with_words(harm: Callable[[], bytes], words: str) -> None:
    with pytest.raises(BrokenObjectError, match=words):
        read_object(harm())


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (0, 1 << 40, "is at 1099511627776 of a section"),
        (8, (1 << 52) | 1, "by symbol 1048576 of"),
        (8, 9, "of type 9 are not known"),
        (16, 1 << 62, "bytes"),
    ],
)
def test_a_wrong_relocation_is_refused_with_words(at: int, value: int, words: str) -> None:
    data = bytearray(sample())
    [begin] = struct.unpack_from("<Q", data, section_of(data, RELA) + BEGIN)
    struct.pack_into("<Q", data, begin + at, value)
    with pytest.raises(BrokenObjectError, match=words):
        read_object(bytes(data))


def test_whatever_bytes_are_changed_it_is_read_within_bounds_or_refused() -> None:
    chance, whole, refused = random.Random(31), sample(), 0
    for _ in range(1500):
        data = bytearray(whole[: chance.randrange(len(whole))] if chance.random() < 0.1 else whole)
        for _ in range(chance.randint(1, 4)):
            if data:
                data[chance.randrange(len(data))] = chance.choice((0, 1, 127, 128, 255))
        try:
            image = read_object(bytes(data))
        except BrokenObjectError:
            refused += 1
            continue
        ends = [part.offset + len(part.content) for part in image.parts]
        assert max(ends, default=0) <= image.size <= 1 << 26
        for one in image.relocations:
            assert 0 <= one.offset <= image.size - 4
            if isinstance(one.target, int):
                assert -PAGE <= one.target + one.addend <= image.size + PAGE
    assert refused > 300
