"""A loop in LLVM IR that LLVM does not unroll, for kernels along rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]


@contextmanager
def as_written(builder: Any, start: Any, stop: Any, step: Any) -> Iterator[Any]:
    """Build a loop; its body gets the loop variable.

    Note    LLVM would unroll up to eight iterations and add a loop for the remainder, and would
            make several such versions. An iteration has several vectors already. Unrolling saved no
            time, and took up to half of the compile time (the kernel "repeat" compiles in 192 ms
            with unrolling, and in 102 ms without)
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
    """Return the metadata that keeps LLVM from unrolling a loop: a node that refers to itself. Each
    loop needs its own node.
    """
    never = module.add_metadata(["llvm.loop.unroll.disable"])
    made = ir.MDValue(module, [], name=str(len(module.metadata)))
    made.operands = made, never
    return made
