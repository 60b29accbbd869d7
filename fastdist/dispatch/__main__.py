"""Shows an op as it runs: python -m fastdist.dispatch show mul [--dtype float64].

Prints the declaration, the public function with its short path, the Node that records the op, the
derivatives, and the CPU and CUDA source of the op's kernels. Parts that the op does not have are
left out.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import linecache
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastdist.core import dtypes as all_dtypes
from fastdist.core.dtypes import DType
from fastdist.kernels.cpu.pointwise.numba_pointwise import Source, can_compile
from fastdist.kernels.cuda.pointwise.pointwise_source import Operand, source_of
from fastdist.language.scalar import Body, Call, walk

from .composite import COMPOSITES
from .derive import tensor_expression
from .op import OPS
from .pointwise import PointwiseOp
from .short_path import write_short_path
from .structured import StructuredOp

_WIDTH: Final = 100


def sections_of(name: str, dtype: DType) -> Iterator[tuple[str, str]]:
    """Yield the headings and texts that describe an op.

    Args    name: the name of an op or composite, such as `fastdist.mul` or `linalg.norm`; dtype:
            the dtype of the operands in the source of the kernels
    Raises  KeyError for an unknown name; the message has similar names
    """
    op = OPS.get(name)
    if op is None:
        if name not in COMPOSITES:
            close = difflib.get_close_matches(name, [*OPS, *COMPOSITES], 5)
            known = f"; similar names: {', '.join(close)}" if close else ""
            raise KeyError(f"there is no op {name!r}{known}")
        yield "composite: other ops compute it", inspect.getsource(COMPOSITES[name].call)
        return
    yield "declaration", inspect.getsource(op.declared)
    yield "public function", inspect.getsource(op.public)
    if isinstance(op, PointwiseOp):
        yield from _pointwise_sections(op, dtype)
    elif isinstance(op, StructuredOp):
        yield from _structured_sections(op)


def _pointwise_sections(op: PointwiseOp, dtype: DType) -> Iterator[tuple[str, str]]:
    dtype = _takes(op.form.body, dtype)
    write_short_path(op, op)
    yield "short path, from its first call on", inspect.getsource(op.public)
    if op.may_record:
        yield "Node", _text_of(op.node_class)
    yield "body", op.form.body.text
    gradients = op.form.tail_bodies if op.form.keeps_tails(dtype) else op.form.gradient_bodies
    for name, body in zip(op.tensors, gradients, strict=True):
        yield f"gradient by {name}", "none" if body is None else body.text
    for name, body in zip(op.tensors, gradients, strict=True):
        if body is not None:
            text = inspect.getsource(tensor_expression(body))
            yield f"gradient by {name} that is itself recorded, by ops", text
    bodies = {"": op.form.body}
    bodies |= {f", gradient by {n}": b for n, b in zip(op.tensors, gradients, strict=True) if b}
    for what, body in bodies.items():
        out = all_dtypes.bool_ if op.dtype_rule == "bool" and not what else dtype
        yield f"CPU text{what}", _cpu_text(body, dtype, out)
        yield f"CUDA text{what}", _cuda_text(body, dtype, out)


def _structured_sections(op: StructuredOp) -> Iterator[tuple[str, str]]:
    if op.may_record:
        yield "Node", _text_of(op.node_class)
    for name, (vjp, _) in op.vjps.items():
        yield f"gradient by {name}", inspect.getsource(vjp)
    if op._jvp is not None:
        yield "tangent", inspect.getsource(op._jvp)
    module, _, function = op.kernel.rpartition(".")
    for device in ("cpu", "cuda"):
        yield f"{device.upper()} kernel", f"fastdist.kernels.{device}.{module}: {function}"


def _text_of(node: type[Any]) -> str:
    """Return the source of a Node class, which is generated or written by hand."""
    file = node.apply.__code__.co_filename
    return "".join(linecache.getlines(file)) or inspect.getsource(node)


def _takes(body: Body, dtype: DType) -> DType:
    """Return `dtype`, or int64 if `body` takes only integers and `dtype` is a float dtype."""
    calls = [node.primitive for node in walk(body.tree) if isinstance(node, Call)]
    is_integral = any(name.startswith("bitwise") or name == "gcd" for name in calls)
    return all_dtypes.int64 if is_integral and dtype.may_have_gradient else dtype


def _cpu_text(body: Body, dtype: DType, out: DType) -> str:
    used = body.in_used_order()
    numbers = [dtype.numpy] * len(used.names)
    if not can_compile(used.tree, numbers):
        return f"NumPy computes it: {used.text}"
    text: str = Source([used.tree], used.names, numbers, out.numpy).text()
    return text


def _cuda_text(body: Body, dtype: DType, out: DType) -> str:
    operands = tuple([Operand(dtype.numpy)] * len(body.used))
    text: str = source_of(body, operands, out.numpy)
    return text


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser("python -m fastdist.dispatch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="print how an op is declared and what it runs")
    show.add_argument("op", help="its name, such as mul, softmax or linalg.norm")
    show.add_argument("--dtype", default="float32", help="of the operands; default: float32")
    given = parser.parse_args(words)
    dtype = getattr(all_dtypes, given.dtype, None)
    if not isinstance(dtype, DType):
        parser.error(f"--dtype {given.dtype!r} is not a dtype, such as float32 or int64")
    try:
        sections = list(sections_of(given.op, dtype))
    except KeyError as error:
        parser.error(str(error.args[0]))
    for heading, text in sections:
        sys.stdout.write(f"{f'== {heading} ':=<{_WIDTH}}\n{textwrap.dedent(text).strip()}\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
