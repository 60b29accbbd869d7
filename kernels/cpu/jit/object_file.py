"""Parses relocatable objects that LLVM writes for x86-64 Linux, without LLVM.

Each number in an object is checked against the file's size and the limits below before it is used.
A truncated or forged file is rejected with a message.

Source  the ELF-64 object file format; the System V ABI of AMD64, chapter 4
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_MAGIC: Final = b"\x7fELF"
_64_BITS, _LITTLE_ENDIAN, _RELOCATABLE, _X86_64 = 2, 1, 1, 62

# Section types and flags.
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _UNWIND = 1, 2, 4, 8, 0x70000001
_WRITE, _ALLOC, _EXECUTE, _TLS = 1, 2, 4, 0x400
# Reserved section indices that do not refer to a section.
_UNDEFINED, _RESERVED, _ABSOLUTE = 0, 0xFF00, 0xFFF1
# Relocation types: an absolute address, and distances in 32 and 64 bits.
ABSOLUTE_64, NEAR_32, NEAR_CALL_32, DISTANCE_64 = 1, 2, 4, 24
_WIDTHS: Final = {ABSOLUTE_64: 8, NEAR_32: 4, NEAR_CALL_32: 4, DISTANCE_64: 8}

PAGE: Final = 4096
# Limits, far above the needs of this project's kernels: they have at most 20 sections, 200
# relocations and 100 KB.
_MOST_SECTIONS: Final = 4096
_MOST_BYTES: Final = 64 << 20
CODE, CONSTANTS, VARIABLES = "code", "constants", "variables"
_KINDS: Final = (CODE, CONSTANTS, VARIABLES)


class BrokenObjectError(ValueError):
    """The bytes are not an object of the form that LLVM writes for a kernel."""


class Part(NamedTuple):
    """The bytes of a section and their offset in the mapping; unused bytes of the mapping are 0."""

    offset: int
    content: bytes


class Relocation(NamedTuple):
    """An address to write into the mapping at `offset`; `kind` is one of the types above.

    `target` is an offset in the mapping, or the name of an undefined symbol.
    """

    offset: int
    kind: int
    target: int | str
    addend: int


class Image(NamedTuple):
    """The memory image of an object.

    `spans` has the bounds of code, constants and variables, in this order; each span is whole
    pages.
    `symbols` has the offsets of the symbols that the object defines.
    """

    size: int
    spans: dict[str, tuple[int, int]]
    parts: list[Part]
    relocations: list[Relocation]
    symbols: dict[str, int]

    def undefined(self) -> set[str]:
        """Return the names of symbols that the object needs, but does not define."""
        return {one.target for one in self.relocations if isinstance(one.target, str)}


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int


def read_object(data: bytes) -> Image:
    """Return the memory image of an object from the object's bytes.

    Raises  BrokenObjectError
    """
    sections = _sections(data)
    places, size, spans = _places(sections)
    symbols = _symbols(data, sections)
    parts = [
        Part(at, _content(data, sections[i]))
        for i, at in places.items()
        if sections[i].type == _PROGBITS
    ]
    defined = {
        one.name: places[one.section] + one.value
        for one in symbols
        if one.name and one.section in places and one.value <= sections[one.section].size
    }
    relocations = []
    for section in sections:
        if section.type == _RELA and section.info in places:
            relocations += _relocations(data, sections, section, places, symbols)
    return Image(size, spans, parts, relocations, defined)


def _refuse(why: str) -> BrokenObjectError:
    return BrokenObjectError(f"the object code of a kernel is broken: {why}")


def _sections(data: bytes) -> list[_Section]:
    if len(data) < _HEADER.size:
        raise _refuse(f"it has {len(data)} bytes, fewer than an ELF header")
    magic, bits, order, *_ = fields = _HEADER.unpack_from(data)
    kind, machine, table, entry_size, count = (
        fields[5],
        fields[6],
        fields[10],
        fields[15],
        fields[16],
    )
    found = (magic, bits, order, kind, machine)
    if found != (_MAGIC, _64_BITS, _LITTLE_ENDIAN, _RELOCATABLE, _X86_64):
        raise _refuse("it is not a relocatable ELF file for x86-64")
    if entry_size != _SECTION.size or not 0 < count <= _MOST_SECTIONS:
        raise _refuse(f"it has {count} sections of {entry_size} bytes each in its table")
    if table > len(data) - count * _SECTION.size:
        raise _refuse(f"its table of sections begins at {table} of {len(data)} bytes")
    sections = [
        _Section(*_SECTION.unpack_from(data, table + i * _SECTION.size)) for i in range(count)
    ]
    for i, one in enumerate(sections):
        if one.type != _NOBITS and one.size and one.offset > len(data) - one.size:
            raise _refuse(f"section {i} ends outside its {len(data)} bytes")
    return sections


def _content(data: bytes, section: _Section) -> bytes:
    return data[section.offset : section.offset + section.size]


def _places(
    sections: list[_Section],
) -> tuple[dict[int, int], int, dict[str, tuple[int, int]]]:
    """Return the offsets of sections, the total size, and the span of each kind."""
    kinds: dict[str, list[int]] = {kind: [] for kind in _KINDS}
    for i, one in enumerate(sections):
        # Unwind tables are not mapped, because no exception passes through a kernel.
        if not one.flags & _ALLOC or one.type == _UNWIND:
            continue
        if one.type not in (_PROGBITS, _NOBITS) or one.flags & _TLS:
            raise _refuse(f"section {i} has type {one.type} and flags {one.flags:#x}")
        if one.flags & _EXECUTE and one.flags & _WRITE:
            raise _refuse(f"section {i} is code that may be written to")
        alignment = one.alignment or 1
        if alignment & (alignment - 1) or alignment > PAGE:
            raise _refuse(f"section {i} asks for alignment at {one.alignment} bytes")
        kinds[_kind_of(one)].append(i)
    places, end, spans = {}, 0, {}
    for kind, members in kinds.items():
        begin = end
        for i in members:
            places[i] = end = _rounded(end, sections[i].alignment or 1)
            end += sections[i].size
            if end > _MOST_BYTES:
                raise _refuse(f"its sections are larger than {_MOST_BYTES} bytes")
        end = _rounded(end, PAGE)
        spans[kind] = begin, end
    return places, end, spans


def _kind_of(section: _Section) -> str:
    if section.flags & _EXECUTE:
        return CODE
    return VARIABLES if section.flags & _WRITE else CONSTANTS


def _rounded(number: int, to: int) -> int:
    return (number + to - 1) // to * to


def _symbols(data: bytes, sections: list[_Section]) -> list[_Symbol]:
    tables = [one for one in sections if one.type == _SYMTAB]
    if len(tables) != 1:
        raise _refuse(f"it has {len(tables)} tables of symbols")
    [table] = tables
    if table.entry_size != _SYMBOL.size or table.size % _SYMBOL.size:
        raise _refuse(
            f"its table of symbols has {table.size} bytes in entries of {table.entry_size}"
        )
    if table.link >= len(sections):
        raise _refuse(f"its names are in section {table.link} of {len(sections)}")
    names = _content(data, sections[table.link])
    symbols = []
    for name, _, _, section, value, _ in _SYMBOL.iter_unpack(_content(data, table)):
        end = names.find(b"\0", name)
        if end < 0:
            raise _refuse(f"a name begins at {name} of {len(names)} bytes, and does not end")
        if section < _RESERVED and section >= len(sections):
            raise _refuse(f"a symbol is in section {section} of {len(sections)}")
        symbols.append(_Symbol(names[name:end].decode("utf-8", "replace"), section, value))
    return symbols


def _relocations(
    data: bytes,
    sections: list[_Section],
    table: _Section,
    places: dict[int, int],
    symbols: list[_Symbol],
) -> list[Relocation]:
    if table.entry_size != _RELOCATION.size or table.size % _RELOCATION.size:
        raise _refuse(f"relocations have {table.size} bytes in entries of {table.entry_size}")
    section, found = sections[table.info], []
    if section.type != _PROGBITS:
        raise _refuse(f"section {table.info} has relocations, but no content")
    for offset, info, addend in _RELOCATION.iter_unpack(_content(data, table)):
        kind, number = info & 0xFFFFFFFF, info >> 32
        width = _WIDTHS.get(kind)
        if width is None:
            raise _refuse(f"relocations of type {kind} are not known")
        if offset > section.size - width:
            raise _refuse(f"a relocation is at {offset} of a section of {section.size} bytes")
        if number >= len(symbols):
            raise _refuse(f"a relocation is by symbol {number} of {len(symbols)}")
        target = _target(symbols[number], addend, sections, places)
        found.append(Relocation(places[table.info] + offset, kind, target, addend))
    return found


def _target(
    symbol: _Symbol, addend: int, sections: list[_Section], places: dict[int, int]
) -> int | str:
    if symbol.section == _UNDEFINED:
        if not -PAGE <= addend <= PAGE:
            raise _refuse(
                f"a relocation is {addend} bytes from {symbol.name!r}, which is elsewhere"
            )
        return symbol.name
    at = places.get(symbol.section)
    if at is None:
        raise _refuse(f"a relocation is by {symbol.name!r}, which is in no section that is loaded")
    size = sections[symbol.section].size
    # A distance counts from the end of the field that holds it, so value + addend may be just
    # before the section.
    if symbol.value > size or not -PAGE <= symbol.value + addend <= size + PAGE:
        raise _refuse(f"{symbol.name!r} is at {symbol.value} of a section of {size} bytes")
    return at + symbol.value
