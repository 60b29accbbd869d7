"""CUDA C++ text written from a scalar body."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.core.scalar import PRIMITIVES, Body, Call, Literal, Name, Node, render, walk

from .launch import C_TYPES, THREADS, headers_for, text_of

DType = np.dtype[Any]
_BOOL: Final[DType] = np.dtype(np.bool_)
_IN_SPECIAL: Final = {"digamma", "polygamma", "zeta", "igamma", "igammac", "gamma_slope"} | {
    *("erfcx", "ndtri", "i0e", "i1e")
}
_LOGICAL: Final = frozenset({"logical_and", "logical_or", "logical_xor", "logical_not"})
# Of bool operands these make bool, whatever T is.
_STAY_BOOL: Final = frozenset(
    ["where", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"]
)
# pow of a real number and a literal, without the general function.
_POWERS: Final = {
    1: "{}",
    2: "scalar::square({})",
    -1: "scalar::reciprocal({})",
    -2: "scalar::square(scalar::reciprocal({}))",
}


class Operand(NamedTuple):
    """What a text knows of one input: its dtype, and whether it comes as a number by value."""

    dtype: DType
    by_value: bool = False


@functools.lru_cache(maxsize=4096)
def source_of(
    body: Body, operands: tuple[Operand, ...], out: DType, dims: int = 0, wide: bool = True
) -> str:
    """Return the text of one kernel: `contiguous` if dims is 0, else `strided` over dims axes.

    operands are the inputs that the body uses, in order. A text that is not wide counts elements
    in 32 bits, which divides faster.
    """
    compute = compute_dtype(operands, out)
    values = tuple(value_dtype(operand.dtype, compute) for operand in operands)
    text = _Text(operands, values, out)
    return "\n".join(
        (
            f"// {body.text}",
            preamble([body], [out, *(operand.dtype for operand in operands)], compute, out),
            body_function("body", body, values, compute),
            text.contiguous() if dims == 0 else text.strided(dims, wide),
        )
    )


def preamble(bodies: Sequence[Body], stored: Sequence[DType], compute: DType, out: DType) -> str:
    """Return what the functions of bodies need before them; memory holds elements of `stored`."""
    pieces = (piece for body in bodies for piece in walk(body.tree))
    special = any(isinstance(n, Call) and n.primitive in _IN_SPECIAL for n in pieces)
    return "\n".join(
        (
            headers_for(stored),
            text_of("primitives.cuh", "special.cuh") if special else text_of("primitives.cuh"),
            f"typedef {C_TYPES[compute]} T;\ntypedef {C_TYPES[out]} Out;",
        )
    )


def compute_dtype(operands: Sequence[Operand], out: DType) -> DType:
    """Return the dtype of T: that of the inputs, or out's where all inputs are bool.

    float16 computes in float32.
    """
    dtypes = [operand.dtype for operand in operands if operand.dtype != _BOOL]
    chosen = np.result_type(*dtypes) if dtypes else out
    wide: DType = WIDE.get(chosen, chosen)
    return wide


def value_dtype(dtype: DType, compute: DType) -> DType:
    """Return as what an input enters the body: bool stays bool, all else is T."""
    return _BOOL if dtype == _BOOL else compute


def pack_size(operands: Sequence[Operand], out: DType) -> int:
    """Return how many elements a thread moves at once: 16 bytes of the widest operand."""
    widths = [operand.dtype.itemsize for operand in operands if not operand.by_value]
    return 16 // max(*widths, out.itemsize, 1)


def body_function(called: str, body: Body, values: Sequence[DType], compute: DType) -> str:
    """Return a body as a function of C++, of values of these dtypes for the names that it uses."""
    names = [name for name in body.names if name in body.used]
    boolean = {f"x{i}": dtype == _BOOL for i, dtype in enumerate(values)}
    real = compute.kind == "f"
    lines: list[str] = []

    def emit(node: Node, args: list[str]) -> str:
        if isinstance(node, Name):
            return f"x{names.index(node.id)}"
        result = f"t{len(lines)}"
        if isinstance(node, Literal):
            expression, boolean[result] = _literal(node.value), False
        else:
            assert isinstance(node, Call)
            expression, boolean[result] = _call(node, args, [boolean[arg] for arg in args], real)
        lines.append(f"    const {'bool' if boolean[result] else 'T'} {result} = {expression};")
        return result

    result = render(body.tree, emit)
    parameters = ", ".join(f"{C_TYPES[dtype]} x{i}" for i, dtype in enumerate(values))
    lines.append(f"    return cast<Out>({result});")
    return "\n".join((f"__device__ __forceinline__ Out {called}({parameters}) {{", *lines, "}"))


def _call(node: Call, args: list[str], boolean: list[bool], real: bool) -> tuple[str, bool]:
    """Return the C++ of one primitive, and whether it is bool."""
    name = node.primitive
    values = boolean[1:] if name == "where" else boolean
    stays = all(values) and name in _STAY_BOOL
    gives_bool = stays or PRIMITIVES[name].result == "bool"
    exponent = node.args[1] if name == "pow" else None
    if real and isinstance(exponent, Literal) and exponent.value in _POWERS:
        return _POWERS[int(exponent.value)].format(f"T({args[0]})"), False
    wanted = "bool" if stays or name in _LOGICAL else "T"
    typed = [f"{wanted}({arg})" for arg in args]
    if name == "where":
        typed[0] = f"bool({args[0]})"
    return f"scalar::{name}({', '.join(typed)})", gives_bool


def _literal(value: float) -> str:
    if isinstance(value, int):
        # C++ has no literal for the lowest integer: the minus sign comes after the number.
        return f"T({value + 1}LL - 1)" if value < 0 else f"T({value}LL)"
    if math.isnan(value):
        return "scalar::not_a_number<T>()"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}scalar::infinity<T>()"
    return f"T({value!r})"


class _Text:
    """The kernel around the body: how elements are found, fetched and stored."""

    def __init__(self, operands: Sequence[Operand], values: Sequence[DType], out: DType) -> None:
        self._pack = pack_size(operands, out)
        self._operands, self._values = operands, values
        self._in_memory = [i for i, operand in enumerate(operands) if not operand.by_value]

    def contiguous(self) -> str:
        """Bound by memory: every thread moves 16 bytes of the widest operand at a time."""
        packs = "".join(
            f"        const Pack<{self._stored(i)}, PACK> pack{i} ="
            f" reinterpret_cast<const Pack<{self._stored(i)}, PACK>*>(in{i})[i];\n"
            for i in self._in_memory
        )
        return f"""
constexpr int PACK = {self._pack};

extern "C" __global__ void __launch_bounds__({THREADS})
contiguous({self._parameters()}Out* out, long long size) {{
    const long long first = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long step = (long long)(gridDim.x) * blockDim.x;
    for (long long i = first; i < size / PACK; i += step) {{
{packs}        Pack<Out, PACK> result;
#pragma unroll
        for (int k = 0; k < PACK; ++k) result.lane[k] = body({self._arguments("pack{}.lane[k]")});
        reinterpret_cast<Pack<Out, PACK>*>(out)[i] = result;
    }}
    for (long long i = size / PACK * PACK + first; i < size; i += step)
        out[i] = body({self._arguments("in{}[i]")});
}}
"""

    def strided(self, dims: int, wide: bool) -> str:
        """Bound by memory where neighbours lie together, else by the lines that are fetched."""
        strides = "".join(f", in{i}[DIMS]" for i in self._in_memory)
        offset = "offset_of<Index, DIMS>(i, walk.shape, walk.{})"
        fetched = self._arguments("in{}[" + offset.format("in{}") + "]")
        return f"""
constexpr int DIMS = {dims};
typedef {"unsigned long long" if wide else "unsigned int"} Index;

struct Walk {{
    long long size, shape[DIMS]{strides}, out[DIMS];
}};

extern "C" __global__ void __launch_bounds__({THREADS})
strided({self._parameters()}Out* out, Walk walk) {{
    const Index step = Index(gridDim.x) * blockDim.x;
    for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(walk.size); i += step)
        out[{offset.format("out")}] = body({fetched});
}}
"""

    def _stored(self, i: int) -> str:
        return C_TYPES[self._operands[i].dtype]

    def _parameters(self) -> str:
        return "".join(
            f"{C_TYPES[self._values[i]]} in{i}, "
            if operand.by_value
            else f"const {self._stored(i)}* in{i}, "
            for i, operand in enumerate(self._operands)
        )

    def _arguments(self, element: str) -> str:
        return ", ".join(
            f"in{i}"
            if operand.by_value
            else f"cast<{C_TYPES[self._values[i]]}>({element.replace('{}', str(i))})"
            for i, operand in enumerate(self._operands)
        )
