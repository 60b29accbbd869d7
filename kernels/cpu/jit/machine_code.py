"""Object code in memory: mapped, linked with the functions that it needs, callable from Python.

Memory is first written and then made executable, never both at the same time. It is never unmapped,
because the code may run at the interpreter's exit: NumPy may call it to free arrays, and threads of
a pool may still run it.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .object_file import (
    ABSOLUTE_64,
    CODE,
    CONSTANTS,
    DISTANCE_64,
    BrokenObjectError,
    Image,
    read_object,
)

# The symbols that a kernel may need. The list is fixed, because an unknown symbol would crash the
# first call.
_C_NAMES: Final = """
    memcpy memmove memset bcmp memcmp aligned_alloc malloc free malloc_usable_size madvise
    acos acosf acosh acoshf asin asinf asinh asinhf atan atanf atan2 atan2f atanh atanhf cbrt cbrtf
    ceil ceilf copysign copysignf cos cosf cosh coshf erf erff erfc erfcf exp expf exp2 exp2f expm1
    expm1f fabs fabsf floor floorf fma fmaf fmod fmodf hypot hypotf ldexp ldexpf lgamma lgammaf log
    logf log10 log10f log1p log1pf log2 log2f nearbyint nearbyintf nextafter nextafterf pow powf
    rint rintf round roundf sin sinf sincos sincosf sinh sinhf sqrt sqrtf tan tanf tanh tanhf tgamma
    tgammaf trunc truncf
"""
_PYTHON_NAMES: Final = """
    PyBool_FromLong PyBytes_FromStringAndSize PyErr_Format PyErr_Occurred PyErr_SetString
    PyEval_RestoreThread PyEval_SaveThread PyExc_SystemError PyExc_TypeError PyExc_ValueError
    PyFloat_AsDouble PyFloat_FromDouble PyImport_ImportModule PyLong_AsLongLong
    PyLong_AsUnsignedLongLong PyLong_FromLongLong PyLong_FromUnsignedLongLong PyLong_Type
    PyBool_Type PyFloat_Type PyNumber_Float PyNumber_Long PyObject_CallMethod PyObject_IsTrue
    PyTuple_New PyTuple_SetItem PyTuple_Type PyType_IsSubtype Py_DecRef Py_IncRef _Py_NoneStruct
    _Py_NotImplementedStruct
"""
_OF_C, _OF_PYTHON = frozenset(_C_NAMES.split()), frozenset(_PYTHON_NAMES.split())
# Functions of the C library, by the names of the functions with which Numba replaces them.
_OF_NUMBA: Final = {"numba_nextafter": "nextafter", "numba_nextafterf": "nextafterf"}
# NumPy's types, by the names that object code uses.
_OF_NUMPY: Final = {
    f"fastdist_numpy_{name}": getattr(np, name)
    for name in (
        *("ndarray", "bool_", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "complex64", "complex128"),
    )
}

_READ, _WRITE, _EXECUTE = mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC
_FASTCALL: Final = 0x80
_NEAR: Final = 1 << 31


def known_symbols() -> frozenset[str]:
    """Return the names of all symbols that object code may need."""
    return _OF_C | _OF_PYTHON | _OF_NUMPY.keys() | _OF_NUMBA.keys()


@functools.cache
def can_execute() -> bool:
    """Return whether the system lets this process make memory executable."""
    if sys.platform != "linux":
        return True
    base, size = _map(mmap.PAGESIZE), mmap.PAGESIZE
    try:
        return not _python().mprotect(base, size, _READ | _EXECUTE)
    finally:
        _python().munmap(base, size)


class _Method(ctypes.Structure):
    """CPython's struct PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class MachineCode:
    """Linked object code in memory; it is never unloaded.

    Raises  BrokenObjectError for invalid object code, or for an unknown symbol; OSError if memory
            cannot be mapped or made executable
    """

    def __init__(self, data: bytes) -> None:
        image = read_object(data)
        needed = {name: _address_of(name) for name in image.undefined()}
        self._base = _mapped(image, needed)
        self._symbols = image.symbols

    def address(self, name: str) -> int:
        """Return the address of a symbol that the object defines.

        Raises  BrokenObjectError if the object defines no such symbol
        """
        at = self._symbols.get(name)
        if at is None:
            raise BrokenObjectError(f"the object code of a kernel does not define {name!r}")
        return self._base + at

    def function(self, name: str) -> Callable[..., Any]:
        """Return a builtin function that calls the C function `name`, of the form METH_FASTCALL."""
        method = _Method(name.encode(), self.address(name), _FASTCALL, None)
        _kept.append(method)  # the builtin refers to it
        made: Callable[..., Any] = _python().PyCFunction_NewEx(ctypes.byref(method), None, None)
        return made


_kept: list[_Method] = []


@functools.cache
def _python() -> Any:
    """Return the C functions of this process. They are called with the GIL held, so that no fork
    happens in the middle of a call.
    """
    found = ctypes.PyDLL(None, use_errno=True)
    found.mmap.restype = ctypes.c_void_p
    found.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t,
    ]  # fmt: skip
    found.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    found.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    found.PyCFunction_NewEx.restype = ctypes.py_object
    found.PyCFunction_NewEx.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return found


@functools.cache
def _libm() -> Any:
    return ctypes.CDLL("libm.so.6")


@functools.cache
def _address_of(name: str) -> int:
    """Return the address of a symbol, if it is one of known_symbols().

    Raises  BrokenObjectError for any other symbol
    """
    if name in _OF_NUMPY:
        return id(_OF_NUMPY[name])
    name = _OF_NUMBA.get(name, name)
    if name not in _OF_C and name not in _OF_PYTHON:
        raise BrokenObjectError(f"the object code of a kernel needs {name!r}, which is not known")
    for library in (_python, _libm):
        try:
            # in_dll instead of the function pointer, because it also works for data, such as None.
            return ctypes.addressof(ctypes.c_char.in_dll(library(), name))
        except ValueError:
            continue
    raise BrokenObjectError(f"the object code of a kernel needs {name!r}, which is not here")


def _mapped(image: Image, needed: dict[str, int]) -> int:
    """Map memory, write the linked image into it, and return the memory's address."""
    size = max(image.size, mmap.PAGESIZE)
    base = _map(size)
    try:
        linked = _linked(image, base, needed)
        ctypes.memmove(base, linked, len(linked))
        _protect(base, image, CODE, _READ | _EXECUTE)
        _protect(base, image, CONSTANTS, _READ)
    except BaseException:
        _python().munmap(base, size)  # none of the code has run
        raise
    return base


def _map(size: int) -> int:
    base = _python().mmap(None, size, _READ | _WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if base in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "no memory for the code of a kernel")
    return int(base)


def _protect(base: int, image: Image, kind: str, to: int) -> None:
    begin, end = image.spans[kind]
    if end > begin and _python().mprotect(base + begin, end - begin, to):
        raise OSError(ctypes.get_errno(), f"the system refuses memory that is {kind} of a kernel")


def _linked(image: Image, base: int, needed: dict[str, int]) -> bytes:
    """Return the bytes of an image, linked for the address `base`."""
    memory = bytearray(image.size)
    for part in image.parts:
        memory[part.offset : part.offset + len(part.content)] = part.content
    for one in image.relocations:
        to = base + one.target if isinstance(one.target, int) else needed[one.target]
        value = to + one.addend
        if one.kind == ABSOLUTE_64:
            struct.pack_into("<Q", memory, one.offset, value & (1 << 64) - 1)
            continue
        value -= base + one.offset
        if one.kind == DISTANCE_64:
            struct.pack_into("<q", memory, one.offset, value)
        elif -_NEAR <= value < _NEAR:
            struct.pack_into("<i", memory, one.offset, value)
        else:
            raise BrokenObjectError(
                f"the object code of a kernel calls {one.target!r}, which is too far away"
            )
    return bytes(memory)
