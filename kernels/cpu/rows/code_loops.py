"""A loop of LLVM's code that is compiled as it is written, for kernels along rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]


@contextmanager
def as_written(builder: Any, start: Any, stop: Any, step: Any) -> Iterator[Any]:
    """Build a loop; its body sees the number that it is at.

    Note    LLVM would write up to eight turns one after the other, with a loop for the rest, and
            that for several cases of what is around. A turn is some vectors already: it gained
            nothing and took up to half of the time of compiling (102 ms for 192, to repeat numbers)
    """
    condition, body, end = (builder.append_basic_block(f"loop.{x}") for x in ("if", "do", "end"))
    before = builder.basic_block
    builder.branch(condition)
    builder.position_at_end(condition)
    at = builder.phi(start.type)
    builder.cbranch(builder.icmp_signed("<", at, stop), body, end)
    builder.position_at_end(body)
    yield at
    at.add_incoming(start, before)
    at.add_incoming(builder.add(at, step), builder.basic_block)
    builder.branch(condition).set_metadata("llvm.loop", _never_unrolled(builder.module))
    builder.position_at_end(end)


def _never_unrolled(module: Any) -> Any:
    """Return the metadata that keeps LLVM from unrolling a loop: a node that names itself, one per
    loop.
    """
    never = module.add_metadata(["llvm.loop.unroll.disable"])
    made = ir.MDValue(module, [], name=str(len(module.metadata)))
    made.operands = made, never
    return made
