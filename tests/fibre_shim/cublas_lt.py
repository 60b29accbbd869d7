"""The cuBLASLt functions that fastdist calls, implemented with NumPy behind C's calling convention.

Matrices are column-major, objects are opaque, and the library gets memory by address. As in the
real library, only float32 and the half types support a bias, and sums of half types may stay in
float32.
"""

from __future__ import annotations

import ctypes
import itertools
import traceback
from types import SimpleNamespace
from typing import Any

import numpy as np

from fastdist.core.dtypes import bfloat16
from tests.fibre_shim.cupy import queue, seen, state

_SUCCESS, _INVALID_VALUE, _INTERNAL_ERROR, _NOT_SUPPORTED = 0, 7, 14, 15
_COMPUTE_32F, _COMPUTE_64F, _FAST_TF32 = 68, 70, 77
_EPILOGUE_BIAS = 4
_WORKSPACE_BYTES = 4096
_ALGORITHM = 0x5EED

_objects: dict[int, dict[Any, Any]] = {}
_handles = itertools.count(0xC0DE00, 16)
# For tests: the names of the calls, and for each product its compute type and whether it has a
# bias.
calls: list[str] = []
computed_in: list[int] = []
biased: list[bool] = []
# The statuses that the heuristic and the product return. If nonzero, they do nothing else.
refusals = {"heuristic": 0, "matmul": 0}

_P, _I, _S = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t


def _dtype(code: int) -> np.dtype[Any]:
    kinds = {0: np.float32, 1: np.float64, 2: np.float16, 4: np.complex64, 5: np.complex128}
    return np.dtype(kinds[code]) if code in kinds else {14: bfloat16.numpy}[code]


def _create(place: int, **facts: Any) -> int:
    made = next(_handles)
    _objects[made] = facts
    ctypes.c_void_p.from_address(place).value = made
    return _SUCCESS


def _attribute(made: int, what: int, place: int, size: int) -> int:
    if made not in _objects or size not in (4, 8):
        return _INVALID_VALUE
    kind = ctypes.c_uint32 if size == 4 else ctypes.c_uint64
    _objects[made][what] = kind.from_address(place).value
    return _SUCCESS


def _handle(place: int) -> int:
    ctypes.c_void_p.from_address(place).value = 0x99
    return _SUCCESS


def _description(place: int, compute: int, scale: int) -> int:
    return _create(place, compute=compute, scale=scale)


def _layout(place: int, kind: int, rows: int, columns: int, lead: int) -> int:
    if lead < max(rows, 1):
        return _INVALID_VALUE
    return _create(place, kind=kind, rows=rows, columns=columns, lead=lead)


def _preference(place: int) -> int:
    return _create(place, is_preference=True)


def _destroy(made: int) -> int:
    return _SUCCESS if _objects.pop(made, {}).get("is_preference") else _INVALID_VALUE


def _heuristic(
    handle: int, description: int, a: int, b: int, c: int, d: int, preference: int, wanted: int,
    place: int, count: int,
) -> int:  # fmt: skip
    calls.append("heuristic")
    told, likes = _objects[description], _objects[preference]
    assert handle == 0x99 and wanted == 1 and _objects[c] == _objects[d]
    if 7 in told:
        assert told[7] == _EPILOGUE_BIAS and told[8] % likes[5] == 0, "a bias of that alignment"
    assert likes[1] >= _WORKSPACE_BYTES and likes[3] == 2 and likes[5] == likes[8]
    ctypes.c_int.from_address(count).value = 0
    if refusals["heuristic"]:
        return refusals["heuristic"]
    read, kind = {_objects[one]["kind"] for one in (a, b)}, _objects[d]["kind"]
    assert len({_objects[one].get(5, 1) for one in (a, b, d)}) == 1, "as many of each"
    if read != {kind} and not (kind == 0 and read <= {2, 14} and len(read) == 1):
        return _NOT_SUPPORTED
    if 7 in told and kind in (1, 4, 5):
        return _NOT_SUPPORTED
    ctypes.c_uint64.from_address(place).value = _ALGORITHM
    ctypes.c_size_t.from_address(place + 64).value = _WORKSPACE_BYTES
    ctypes.c_int.from_address(place + 72).value = _SUCCESS
    ctypes.c_int.from_address(count).value = 1
    return _SUCCESS


def _operand(start: int, layout: dict[Any, Any], way: int) -> Any:
    """Return a view of a stack of matrices, each of which is transposed if `way` is 1."""
    dtype = _dtype(layout["kind"])
    steps = layout.get(6, 0), 1, layout["lead"]
    shape = layout.get(5, 1), layout["rows"], layout["columns"]
    found = seen(SimpleNamespace(ptr=start), shape, dtype, [dtype.itemsize * s for s in steps])
    assert way in (0, 1)
    return found.transpose((0, 2, 1)) if way else found


def _matmul(
    handle: int, description: int, alpha: int, A: int, a: int, B: int, b: int, beta: int, C: int,
    c: int, D: int, d: int, algorithm: int, work: int, work_bytes: int, stream: int | None,
) -> int:  # fmt: skip
    calls.append("matmul")
    if refusals["matmul"]:
        return refusals["matmul"]
    told = dict(_objects[description])
    assert handle == 0x99 and (stream or 0) == state.streams[state.device][-1].ptr
    assert ctypes.c_uint64.from_address(algorithm).value == _ALGORITHM
    assert work and work_bytes >= _WORKSPACE_BYTES, "the algorithm's workspace"
    number = _dtype(told["scale"])
    factor, kept = (np.frombuffer((ctypes.c_char * number.itemsize).from_address(one), number)[0]
                    for one in (alpha, beta))  # fmt: skip
    assert kept == 0 and (C, c) == (D, d)
    left = _operand(A, _objects[a], told[3])
    right = _operand(B, _objects[b], told[4])
    out = _operand(D, _objects[d], 0)
    bias: Any = None
    if 7 in told:
        steps = (out.dtype.itemsize,)
        bias = seen(SimpleNamespace(ptr=told[8]), (out.shape[1],), out.dtype, steps)
    computed_in.append(told["compute"])
    biased.append(bias is not None)

    def multiply() -> None:
        product = np.matmul(left.astype(number), right.astype(number)) * factor
        if bias is not None:
            product += bias[:, None].astype(number)
        np.copyto(out, product, casting="unsafe")

    queue(multiply)
    return _SUCCESS


def _function(body: Any, *types: Any) -> Any:
    def answer(*given: Any) -> int:
        try:
            found: int = body(*given)
        except Exception:
            # ctypes would lose the exception, so print it and return a status.
            traceback.print_exc()
            return _INTERNAL_ERROR
        return found

    return ctypes.CFUNCTYPE(ctypes.c_int, *types)(answer)


_U64, _I64 = ctypes.c_uint64, ctypes.c_int64
_LIBRARY = SimpleNamespace(
    cublasLtCreate=_function(_handle, _P),
    cublasLtMatmulDescCreate=_function(_description, _P, _I, _I),
    cublasLtMatmulDescSetAttribute=_function(_attribute, _P, _I, _P, _S),
    cublasLtMatrixLayoutCreate=_function(_layout, _P, _I, _U64, _U64, _I64),
    cublasLtMatrixLayoutSetAttribute=_function(_attribute, _P, _I, _P, _S),
    cublasLtMatmulPreferenceCreate=_function(_preference, _P),
    cublasLtMatmulPreferenceSetAttribute=_function(_attribute, _P, _I, _P, _S),
    cublasLtMatmulPreferenceDestroy=_function(_destroy, _P),
    cublasLtMatmulAlgoGetHeuristic=_function(_heuristic, *[_P] * 7, _I, _P, _P),
    cublasLtMatmul=_function(_matmul, *[_P] * 14, _S, _P),
)


def load(name: str) -> Any:
    """Return the library; used in place of ctypes.CDLL."""
    assert name == "libcublasLt.so.12", name
    return _LIBRARY
