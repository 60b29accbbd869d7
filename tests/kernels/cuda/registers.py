"""Measure the machine code of CUDA sources, and compare it with the table in registers.tsv.

`python -m tests.kernels.cuda.registers` updates the table without a GPU: it adds new sources and
drops removed ones; with `--all` it measures every source again. Then it prints the kernels that
keep local variables in memory, and those that need the most registers.
"""

from __future__ import annotations

import argparse
import functools
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from fastdist.kernels.cuda.compile import ARCHITECTURES, compile_text

TABLE: Final = Path(__file__).with_name("registers.tsv")
GRANULE: Final = 8
"""Registers are given to threads by eights: fewer than that more may cost nothing."""
MANY_REGISTERS: Final = 168
"""From so many on (a thread has 255) a daily run compiles a text for each architecture."""

# These codes come from cubin files, the binary utilities' ELF headers, and nvdisasm's output.
_FRAME_SIZE: Final = 0x11  # EIATTR_FRAME_SIZE: symbol, bytes
_REGISTERS: Final = 0x2F  # EIATTR_REGCOUNT: symbol, number of registers
_SIZED: Final = 4  # EIFMT_SVAL: a two-byte length, and that many bytes
_INSTRUCTION_BYTES: Final = 16
_LOADS: Final = 0x181  # LDG, all variants
_STORES: Final = 0x186  # STG
_WIDTHS: Final = (1, 1, 2, 2, 4, 8, 16, 32)


class Accesses(NamedTuple):
    """The widest loads or stores of global memory, and their number in the code."""

    width_bytes: int
    count: int


class Cost(NamedTuple):
    """The resources of all kernels in one source on one architecture.

    Each value is the maximum over the kernels, except that accesses are counted over all of them.
    """

    registers: int
    frame_bytes: int
    shared_bytes: int
    loads: Accesses
    stores: Accesses

    def __str__(self) -> str:
        accesses = ("x".join(map(str, one)) for one in (self.loads, self.stores))
        return " ".join([*map(str, self[:3]), *accesses])


def read_cost(text: str) -> Cost:
    """Parse a cost that str() has formatted."""
    *numbers, loads, stores = text.split()
    accesses = (Accesses(*map(int, one.split("x"))) for one in (loads, stores))
    return Cost(*map(int, numbers), *accesses)


def cost_of(machine_code: bytes) -> Cost:
    """Return the cost of the kernels in a cubin for sm_70 or newer."""
    registers, frame, shared = 0, 0, 0
    widths: dict[int, list[int]] = {_LOADS: [], _STORES: []}
    for name, section in sections(machine_code):
        if name.startswith(".text."):
            for opcode, width in accesses(section.contents):
                if opcode in widths:
                    widths[opcode].append(width)
        elif name == ".nv.info":
            for attribute, number in notes(section.contents):
                if attribute == _FRAME_SIZE:
                    frame = max(frame, number)
                elif attribute == _REGISTERS:
                    registers = max(registers, number)
        elif name.startswith(".nv.shared.") and not name.startswith(".nv.shared.reserved"):
            shared = max(shared, section.size_bytes)
    return Cost(registers, frame, shared, widest(widths[_LOADS]), widest(widths[_STORES]))


def widest(widths: list[int]) -> Accesses:
    most = max(widths, default=0)
    return Accesses(most, widths.count(most))


class Section(NamedTuple):
    """A section of an ELF file. A section for shared memory has a size, but no contents."""

    size_bytes: int
    contents: bytes


def sections(elf: bytes) -> Iterator[tuple[str, Section]]:
    """Yield the names and sections of a 64-bit ELF file."""
    (headers,) = struct.unpack_from("<Q", elf, 0x28)
    each, count, of_names = struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", elf, headers + i * each) for i in range(count)]
    names = rows[of_names][4]
    for name, _, _, _, offset, size, *_ in rows:
        begin = names + name
        text = elf[begin : elf.index(b"\0", begin)].decode()
        yield text, Section(size, elf[offset : offset + size])


def notes(section: bytes) -> Iterator[tuple[int, int]]:
    """Yield the attributes of each kernel with their values.

    One attribute is the frame size: memory for local variables, including spilled registers.
    """
    at = 0
    while at + 4 <= len(section):
        form, attribute, value = struct.unpack_from("<BBH", section, at)
        if form == _SIZED and value == 8:
            yield attribute, struct.unpack_from("<II", section, at + 4)[1]
        at += 4 + (value if form == _SIZED else 0)


def accesses(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield the opcode of each instruction, and the width of its memory access, if any."""
    for at in range(0, len(code) - _INSTRUCTION_BYTES + 1, _INSTRUCTION_BYTES):
        low, high = struct.unpack_from("<QQ", code, at)
        yield low & 0x1FF, _WIDTHS[high >> 9 & 7]


def measure(text: str) -> tuple[Cost, ...]:
    """Return the costs of a source, one per architecture."""
    return tuple(measure_on(architecture, text) for architecture in ARCHITECTURES)


@functools.cache
def measure_on(architecture: str, text: str) -> Cost:
    """Return the cost of a source on one architecture; cached, as it may have several names."""
    return cost_of(compile_text(text, architecture))


def sample_architectures(name: str, text: str, known: Sequence[Cost]) -> tuple[str, ...]:
    """Return the architectures for which an ordinary run compiles a source; `--slow` takes all.

    An ordinary run takes one architecture, chosen by the name of the source, since a mistake in a
    source fails on each architecture. It takes all architectures if the code for them may differ.
    This is so if the source depends on the architecture, or if its kernels need nearly all
    registers of a thread, or more.
    """
    asks = any(word in text for word in ("__CUDA_ARCH__", "asm"))
    if asks or any(cost.frame_bytes or cost.registers >= MANY_REGISTERS for cost in known):
        return ARCHITECTURES
    return (ARCHITECTURES[zlib.crc32(name.encode()) % len(ARCHITECTURES)],)


def what_became_worse(was: Cost, now: Cost) -> list[str]:
    """Return the changes for the worse as strings; an empty list if there are none."""
    worse = []
    if now.frame_bytes > was.frame_bytes:
        worse.append(f"locals in memory: {now.frame_bytes} bytes, {was.frame_bytes} before")
    if now.registers > was.registers + GRANULE:
        worse.append(f"registers: {now.registers}, {was.registers} before")
    if now.shared_bytes > was.shared_bytes:
        worse.append(f"shared memory: {now.shared_bytes} bytes, {was.shared_bytes} before")
    for what, old, new in (("loads", was.loads, now.loads), ("stores", was.stores, now.stores)):
        if new.width_bytes < old.width_bytes or (
            new.width_bytes == old.width_bytes and 2 * new.count < old.count
        ):
            given = f"{new.count} of {new.width_bytes} bytes"
            worse.append(f"widest {what}: {given}, {old.count} of {old.width_bytes} before")
    return worse


@functools.cache
def read_table() -> dict[str, tuple[Cost, ...]]:
    """Return the costs of each source in the table, one per architecture."""
    lines = [line for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#")]
    rows = (line.split("\t") for line in lines)
    return {name: tuple(map(read_cost, costs)) for name, *costs in rows}


def write_table(costs: dict[str, tuple[Cost, ...]]) -> None:
    head = (
        "# What each CUDA text needs on " + ", ".join(ARCHITECTURES) + " as NVRTC 12.9 compiles it:"
        " registers, bytes of locals in memory, bytes of shared memory,\n# the widest loads and"
        " stores of global memory (bytes x how many). Written by"
        " `python -m tests.kernels.cuda.registers`.\n"
    )
    lines = ("\t".join([name, *map(str, costs[name])]) + "\n" for name in sorted(costs))
    TABLE.write_text(head + "".join(lines), "utf-8")


def report(costs: dict[str, tuple[Cost, ...]]) -> Iterator[str]:
    """Yield lines about kernels that keep local variables in memory or need most registers."""
    framed = {name: max(cost.frame_bytes for cost in row) for name, row in costs.items()}
    needed = {name: max(cost.registers for cost in row) for name, row in costs.items()}
    keep = sorted((name for name in framed if framed[name]), key=lambda name: -framed[name])
    yield f"{len(costs)} texts; {len(keep)} keep locals in memory:"
    yield from (f"  {framed[name]:5} bytes  {name}" for name in keep)
    yield "Most registers:"
    yield from (f"  {needed[name]:5}  {name}" for name in sorted(needed, key=needed.get)[-20:])  # type: ignore[arg-type]


def main() -> None:
    from tests.kernels.cuda.texts import texts

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="measure known texts again as well")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many compile")
    given = parser.parse_args()
    everything = texts()
    known = {} if given.all or not TABLE.exists() else read_table()
    costs = {name: known[name] for name in everything if name in known}
    todo = [name for name in everything if name not in known]
    # Spawn the processes, since a forked process would inherit a compiler that this process has
    # loaded.
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        costs |= zip(todo, pool.map(measure, [everything[name] for name in todo], chunksize=8))
    write_table(costs)
    print(f"{len(todo)} measured")
    print(*report(costs), sep="\n")


if __name__ == "__main__":
    main()
