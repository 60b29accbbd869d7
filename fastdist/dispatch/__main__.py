"""Shows an op as it runs: python -m fastdist.dispatch show mul [--dtype float64].

The name is that of an op, or one that users write: torch.mul, Tensor.add_, nn.functional.softmax.
Prints the declaration, the public function with its short path, the Node that records the op, the
derivatives, and the CPU and CUDA source of the op's kernels. Parts that the op does not have are
left out. For a function that calls ops, it prints the source.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pkgutil import resolve_name
from types import CodeType, FunctionType
from typing import Any, Final

from fastdist.core import dtypes as all_dtypes
from fastdist.core.dtypes import DType
from fastdist.core.errors import DeviceError
from fastdist.devices.find_kernel import find_kernel
from fastdist.kernels.cpu.pointwise.numba_pointwise import Source, can_compile
from fastdist.kernels.cuda.launch import text_of
from fastdist.kernels.cuda.pointwise.pointwise_source import Operand, source_of
from fastdist.language.scalar import Body

from .composite import COMPOSITES
from .declaration import later_results
from .derive import tensor_expression
from .op import OPS
from .pointwise import PointwiseOp
from .short_path import write_short_path
from .structured import StructuredOp
from .view import ViewOp

_WIDTH: Final = 100
# Where users find a name that they write without its module or class.
_PLACES: Final = ("", "Tensor.", "nn.functional.")


def sections_of(name: str, dtype: DType) -> Iterator[tuple[str, str]]:
    """Yield the headings and texts that describe an op.

    Args    name: the name of an op or composite, such as `mul` or `linalg.norm`, or the name by
            which users call it, such as `torch.mul`, `fastdist.mul`, `Tensor.mul_` or `getitem`;
            dtype: the dtype of the operands in the source of the kernels
    Raises  KeyError for an unknown name; the message has similar names
    """
    key, function = (name, None) if name in OPS or name in COMPOSITES else _public_function(name)
    if key is None or key != name:
        yield "name", f"{name} is {'a function' if key is None else f'{key}, shown below'}"
    if function is not None:
        yield "function that calls ops", inspect.getsource(function)
    if key in COMPOSITES:
        yield "composite: other ops compute it", inspect.getsource(COMPOSITES[key].call)
    op = OPS.get(key or "")
    if op is None:
        return
    yield "declaration", inspect.getsource(op.declared)
    yield "public function", inspect.getsource(op.public)
    if isinstance(op, PointwiseOp):
        yield from _pointwise_sections(op, dtype)
    elif isinstance(op, StructuredOp):
        yield from _structured_sections(op)


def _public_function(name: str) -> tuple[str | None, FunctionType | None]:
    """Return the key of the op or composite that users call by this name; None for a function of
    neither table. Also return a function to show first, if one is between users and the op.

    Raises  KeyError for an unknown name
    Note    dispatch is below the public names, so they are looked up at run time, as users do
    """
    own = name.removeprefix("torch.").removeprefix("fastdist.")
    thing, path = None, own
    for path in [f"{place}{one}" for one in (own, f"__{own}__") for place in _PLACES]:
        try:
            thing = resolve_name(f"fastdist:{path}")
            break
        except AttributeError:
            continue
    thing = getattr(thing, "fget", thing)  # the function of a property
    key = _key_of(thing)
    if key is not None:
        return key, None
    if path.startswith(("Tensor.__", "nn.functional.")):
        # The function of an operator, or one with the arguments of nn.functional, calls the op.
        last = path.rpartition(".")[2].strip("_")
        key = last if last in OPS or last in COMPOSITES else None
    function = inspect.unwrap(thing) if callable(thing) else None
    if isinstance(function, FunctionType):
        return key, function
    if key is None:
        raise KeyError(f"there is no op {name!r}{_similar(own.lower())}")
    return key, None


def _similar(name: str) -> str:
    """Return the end of an error message, with names that are similar to an unknown name."""
    known = {one.lower(): one for one in (*COMPOSITES, *OPS)}
    words = dict.fromkeys((name, name.rpartition(".")[2]))
    close = [known[one] for word in words for one in difflib.get_close_matches(word, known, 5)]
    return f"; similar names: {', '.join(dict.fromkeys(close))}" if close else ""


def _key_of(thing: Any) -> str | None:
    """Return the name in the tables of a public function or of its in-place twin."""
    plain = inspect.unwrap(thing) if callable(thing) else None
    if plain is None:
        return None
    for name, one in COMPOSITES.items():
        if plain is inspect.unwrap(one.call):
            return name
    for name, op in OPS.items():
        if thing is op.__dict__.get("public") or plain is op.declared or thing is op:
            return name
    return None


def _pointwise_sections(op: PointwiseOp, dtype: DType) -> Iterator[tuple[str, str]]:
    if op.dtype_rule in ("integral", "whole") and dtype.may_have_gradient:
        dtype = all_dtypes.int64
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
    op.write_short_path(later_results(op.returns))
    if op.written is None:
        yield "short path, from its first call on", inspect.getsource(op.public)
    if op.may_record:
        yield "Node", _text_of(op.node_class)
    rules = {"plan": op._plan, "tangent": op._jvp, "gradients on a device": op.on_device}
    rules |= {f"gradient by {name}": vjp for name, (vjp, _) in op.vjps.items()}
    if isinstance(op, ViewOp):
        rules["canonical attributes"] = op._prepare
        rules["view of a raw array"] = getattr(op, "_array", None)
        rules["view of a raw CPU array"] = op._looking
        rules["raw gradient"] = op._raw_gradient
    for heading, rule in rules.items():
        if rule is not None:
            yield heading, _source_of(rule)
    if op.kernel:
        yield from _kernel_sections(op.kernel)


def _kernel_sections(kernel: str) -> Iterator[tuple[str, str]]:
    """Yield the source of a kernel on the CPU and on CUDA, and the CUDA texts that it compiles."""
    module, _, function = kernel.rpartition(".")
    for device in ("cpu", "cuda"):
        try:
            found = find_kernel(device, kernel)
        except DeviceError:
            continue  # a kernel that only the CPU has
        name = f"fastdist.kernels.{device}.{module}: {function}"
        yield f"{device.upper()} kernel", f"# {name}\n{_source_of(found)}"
        if device == "cuda":
            for file in dict.fromkeys(_texts_of(found, set())):
                yield f"CUDA text {file}", text_of(file)


def _texts_of(function: Any, seen: set[Any]) -> Iterator[str]:
    """Yield the names of the texts (.cu) in a kernel and in the functions that it calls."""
    function = inspect.unwrap(function) if callable(function) else function
    if not isinstance(function, FunctionType) or function in seen:
        return
    seen.add(function)
    codes = [function.__code__]
    for code in codes:
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
        yield from (
            one for one in code.co_consts if isinstance(one, str) and one[1:].endswith(".cu")
        )
        for name in code.co_names:
            called = function.__globals__.get(name)
            if str(getattr(called, "__module__", None)).startswith("fastdist.kernels.cuda"):
                yield from _texts_of(called, seen)


def _source_of(function: Callable[..., Any]) -> str:
    """Return the source of a function, of a compiled function, or of what a partial calls."""
    while not isinstance(function, FunctionType):
        inner = getattr(function, "py_func", None) or getattr(function, "func", None)
        if inner is None:
            return repr(function)
        function = inner
    return inspect.getsource(function)


def _text_of(node: type[Any]) -> str:
    """Return the source of a Node class, which is generated or written by hand."""
    file = node.apply.__code__.co_filename
    return "".join(linecache.getlines(file)) or inspect.getsource(node)


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
    show.add_argument("op", help="its name, such as mul, torch.mul, Tensor.add_ or linalg.norm")
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
