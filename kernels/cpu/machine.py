"""LLVM instructions that Numba's Python does not reach: typed memory, select, rounding, bit casts.

Each is one instruction, so that LLVM sees loops it can vectorise: Python's `a if c else b` is a
branch to Numba, its `max` a function that LLVM cannot widen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numba.extending
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils


def intrinsic(function: Callable[..., Any]) -> Any:
    """Return Numba's intrinsic: the caller gives no typing context, which mypy could not know."""
    return numba.extending.intrinsic(function)


TYPES: Final[dict[str, Any]] = {
    "bool": types.boolean,
    "uint8": types.uint8,
    "int8": types.int8,
    "int16": types.int16,
    "int32": types.int32,
    "int64": types.int64,
    "float32": types.float32,
    "float64": types.float64,
}
_INT64: Final = ir.IntType(64)
_cgutils: Any = cgutils  # untyped


def _loader(element: Any) -> Callable[..., Any]:
    @intrinsic
    def load(typingctx: Any, address: Any, index: Any) -> Any:
        """Return element number index of the gapless array at address."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            memory = context.get_data_type(element)
            pointer = builder.gep(builder.inttoptr(args[0], memory.as_pointer()), [args[1]])
            # Alignment 1: arrays made from byte buffers may start anywhere.
            value = builder.load(pointer, align=1)
            if element is types.boolean:
                return builder.icmp_unsigned("!=", value, ir.Constant(memory, 0))
            return value

        return element(types.int64, types.int64), codegen

    made: Callable[..., Any] = load
    return made


def _storer(element: Any) -> Callable[..., Any]:
    @intrinsic
    def store(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
        """Write value into element number index of the gapless array at address."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            memory = context.get_data_type(element)
            pointer = builder.gep(builder.inttoptr(args[0], memory.as_pointer()), [args[1]])
            given = builder.zext(args[2], memory) if element is types.boolean else args[2]
            builder.store(given, pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, element), codegen

    made: Callable[..., Any] = store
    return made


LOAD: Final = {name: _loader(element) for name, element in TYPES.items()}
STORE: Final = {name: _storer(element) for name, element in TYPES.items()}


@intrinsic
def load_word(typingctx: Any, address: Any) -> Any:
    """Return the 64-bit integer at address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], _INT64.as_pointer()))

    return types.int64(types.int64), codegen


@intrinsic
def load_int(typingctx: Any, address: Any) -> Any:
    """Return the C int at address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(builder.inttoptr(args[0], ir.IntType(32).as_pointer()))
        return builder.sext(value, _INT64)

    return types.int64(types.int64), codegen


@intrinsic
def call_loop(typingctx: Any, function: Any, pointers: Any, count: Any) -> Any:
    """Call the compiled inner loop at the address function, a `void (i64, i64)`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_INT64, _INT64])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


def on_threads(part: Any) -> Callable[..., Any]:
    """Return the function on_threads(pool, data, count, threads), which calls the compiled part
    part(first, count, data) for shares of 0 to count on so many threads. part may not raise.

    Note    pool is the address of a pool's parallel_for, as Numba's own pools have it: it takes a
            gufunc's loop, whose one operand is here the number of a share, an element of 1 byte
    """

    @intrinsic
    def launch(typingctx: Any, pool: Any, data: Any, count: Any, threads: Any) -> Any:
        part.compile((types.int64,) * 3)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pool, data, count, threads = args
            module, word, byte = builder.module, _INT64.as_pointer(), ir.IntType(8).as_pointer()
            compiled = part.overloads[(types.int64,) * 3]
            context.active_code_library.add_linking_library(compiled.library)
            kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), word, word, byte])
            loop = ir.Function(module, kind, module.get_unique_name("share"))
            loop.linkage = "internal"
            inside = ir.IRBuilder(loop.append_basic_block())
            first = inside.ptrtoint(inside.load(loop.args[0]), _INT64)
            given = [first, inside.load(loop.args[1]), inside.ptrtoint(loop.args[3], _INT64)]
            function, described = context.declare_function(module, compiled.fndesc), compiled.fndesc
            context.call_conv.call_function(
                inside, function, described.restype, described.argtypes, given
            )
            inside.ret_void()

            none = builder.inttoptr(ir.Constant(_INT64, 0), byte)
            firsts, counts, steps = [builder.alloca(kind) for kind in (byte, _INT64, _INT64)]
            builder.store(none, firsts)
            builder.store(count, counts)
            builder.store(ir.Constant(_INT64, 1), steps)
            pointers = [builder.bitcast(pointer, byte) for pointer in (loop, firsts, counts, steps)]
            enter = ir.FunctionType(ir.VoidType(), [byte] * 5 + [_INT64] * 3)
            numbers = [ir.Constant(_INT64, 0), ir.Constant(_INT64, 1), threads]
            builder.call(
                builder.inttoptr(pool, enter.as_pointer()),
                [*pointers, builder.inttoptr(data, byte), *numbers],
            )
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), codegen

    made: Callable[..., Any] = launch
    return made


@intrinsic
def stack_words(typingctx: Any, count: Any) -> Any:
    """Return the address of count 64-bit words that live until the function returns."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(builder.alloca(_INT64, args[0]), _INT64)

    return types.int64(types.int64), codegen


@intrinsic
def copy_bytes(typingctx: Any, source: Any, target: Any, count: Any) -> Any:
    """Copy count bytes between memories that do not overlap."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        memory = ir.IntType(8).as_pointer()
        origin, goal = [builder.inttoptr(address, memory) for address in args[:2]]
        _cgutils.raw_memcpy(builder, goal, origin, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def select(typingctx: Any, condition: Any, a: Any, b: Any) -> Any:
    """Return a where condition holds, else b; both are computed. a and b have one type."""
    if a != b or condition != types.boolean:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(*args)

    return a(condition, a, a), codegen


def _elementary(name: str, arity: int) -> Callable[..., Any]:
    def typed(x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = args[0].type
            kind = ir.FunctionType(number, [number] * arity)
            function = builder.module.declare_intrinsic(f"llvm.{name}", [number], kind)
            return builder.call(function, args)

        return x(*[x] * arity), codegen

    if arity == 1:

        @intrinsic
        def unary(typingctx: Any, x: Any) -> Any:
            return typed(x) if isinstance(x, types.Float) else None

        one: Callable[..., Any] = unary
        return one

    @intrinsic
    def binary(typingctx: Any, x: Any, y: Any) -> Any:
        return typed(x) if isinstance(x, types.Float) and x == y else None

    two: Callable[..., Any] = binary
    return two


floor: Final = _elementary("floor", 1)
ceil: Final = _elementary("ceil", 1)
trunc: Final = _elementary("trunc", 1)
rint: Final = _elementary("rint", 1)
sqrt: Final = _elementary("sqrt", 1)
fabs: Final = _elementary("fabs", 1)
copysign: Final = _elementary("copysign", 2)


def _reinterpret(to: Any, source: Any) -> Callable[..., Any]:
    @intrinsic
    def reinterpret(typingctx: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(to))

        return to(source), codegen

    made: Callable[..., Any] = reinterpret
    return made


bits_of_float32: Final = _reinterpret(types.int32, types.float32)
float32_of_bits: Final = _reinterpret(types.float32, types.int32)
bits_of_float64: Final = _reinterpret(types.int64, types.float64)
float64_of_bits: Final = _reinterpret(types.float64, types.int64)


@intrinsic
def fmod(typingctx: Any, x: Any, y: Any) -> Any:
    """Return C's fmod, for which Numba has no name."""
    if not isinstance(x, types.Float) or x != y:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.frem(*args)

    return x(x, y), codegen


@intrinsic
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c rounded once, on every machine; slow where the machine has no such thing."""
    if not isinstance(a, types.Float) or a != b or a != c:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = args[0].type
        kind = ir.FunctionType(number, [number] * 3)
        return builder.call(builder.module.declare_intrinsic("llvm.fma", [number], kind), args)

    return a(a, a, a), codegen
