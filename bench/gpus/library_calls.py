"""Calls of NVIDIA's libraries through CuPy that no GPU has run yet, and samples that reach them.

fastdist's own kernels are compiled by NVIDIA's compiler, and the tests run them on fibres (a
simulated GPU). But the tests replace CuPy's other calls by NumPy. Only a GPU can show whether
cuBLAS, cuSOLVER, cuFFT or CuPy's own kernels get valid arguments and give the same results.
`python -m bench first_contact` runs the samples below before all others. The calls are found in the
source of kernels/cuda; a test checks that each call has a sample that reaches it. CUDA's memory and
events that processes share, under cuda_ipc, have a separate check (other_process.py).
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

# Call -> (the library, the first sample of the table that makes the call). If a function's name
# starts with a dtype's letter, the name is listed without this letter.
PROVEN_BY: Final = {
    "cupy.matmul": ("cuBLAS", "matmul-3"),
    "cupy_backends.cuda.libs.cublas.getVersion": ("cuBLAS", "linear-0"),
    "cublasLtCreate": ("cuBLASLt, by ctypes", "linear-0"),
    "cupy.cuda.runtime.getDevice": ("CUDA's runtime", "linear-0"),
    "cublasLtMatmulDescCreate": ("cuBLASLt, by ctypes", "linear-0"),
    "cublasLtMatmulDescSetAttribute": ("cuBLASLt, by ctypes", "linear-0"),
    "cublasLtMatrixLayoutCreate": ("cuBLASLt, by ctypes", "linear-0"),
    "cublasLtMatrixLayoutSetAttribute": ("cuBLASLt, by ctypes", "attention of float16"),
    "cublasLtMatmulPreferenceCreate": ("cuBLASLt, by ctypes", "linear-0"),
    "cublasLtMatmulPreferenceSetAttribute": ("cuBLASLt, by ctypes", "linear-0"),
    "cublasLtMatmulPreferenceDestroy": ("cuBLASLt, by ctypes", "linear-0"),
    "cublasLtMatmulAlgoGetHeuristic": ("cuBLASLt, by ctypes", "linear-0"),
    "cublasLtMatmul": ("cuBLASLt, by ctypes", "linear-0"),
    "cupy.ascontiguousarray": ("CuPy's own kernel", "matmul-3"),
    "cusolver.potrf": ("cuSOLVER", "linalg.cholesky-0"),
    "cusolver.potrf_bufferSize": ("cuSOLVER", "linalg.cholesky-0"),
    "cusolver.potrfBatched": ("cuSOLVER", "linalg.cholesky-1"),
    "cublas.trsm": ("cuBLAS", "linalg.solve_triangular-0"),
    "cublas.trsmBatched": ("cuBLAS", "linalg.solve_triangular-1"),
    "cusolver.getrf": ("cuSOLVER", "linalg.lu_factor-0"),
    "cusolver.getrf_bufferSize": ("cuSOLVER", "linalg.lu_factor-0"),
    "cublas.getrfBatched": ("cuBLAS", "linalg.lu_factor-1"),
    "cusolver.getrs": ("cuSOLVER", "linalg.solve-0"),
    "cublas.getrsBatched": ("cuBLAS", "linalg.solve-1"),
    "cusolver.syevd": ("cuSOLVER", "linalg.eigh-0"),
    "cusolver.syevd_bufferSize": ("cuSOLVER", "linalg.eigh-0"),
    "cusolver.createSyevjInfo": ("cuSOLVER", "linalg.eigh-1"),
    "cusolver.syevjBatched": ("cuSOLVER", "linalg.eigh-1"),
    "cusolver.syevjBatched_bufferSize": ("cuSOLVER", "linalg.eigh-1"),
    "cusolver.gesvd": ("cuSOLVER", "linalg.svd-0"),
    "cusolver.gesvd_bufferSize": ("cuSOLVER", "linalg.svd-0"),
    "cusolver.createGesvdjInfo": ("cuSOLVER", "linalg.svd-1"),
    "cusolver.gesvdjBatched": ("cuSOLVER", "linalg.svd-1"),
    "cusolver.gesvdjBatched_bufferSize": ("cuSOLVER", "linalg.svd-1"),
    "cusolver.geqrf": ("cuSOLVER", "linalg.qr-0"),
    "cusolver.geqrf_bufferSize": ("cuSOLVER", "linalg.qr-0"),
    "cusolver.orgqr": ("cuSOLVER", "linalg.qr-0"),
    "cusolver.orgqr_bufferSize": ("cuSOLVER", "linalg.qr-0"),
    "cupy.fft.fftn": ("cuFFT", "fft.fft-0"),
    "cupy.fft.ifftn": ("cuFFT", "fft.ifft2-0"),
    "cupy.fft.rfftn": ("cuFFT", "fft.rfft-0"),
    "cupy.fft.irfft": ("cuFFT", "fft.irfft-0"),
    "cupyx.cusolver.check_availability": ("whether CUDA is 12.6 or newer", "linalg.eig-0"),
    "cupy.cuda.alloc_pinned_memory": ("memory of the CPU", "linalg.eig-0"),
    "cusolver.createParams": ("cuSOLVER", "linalg.eig-0"),
    "cupy_backends.cuda.libs.cusolver.xgeev": ("cuSOLVER, from CUDA 12.6 on", "linalg.eig-0"),
    "cupy_backends.cuda.libs.cusolver.xgeev_bufferSize": ("cuSOLVER", "linalg.eig-0"),
    "cupy.asnumpy": ("a copy: LAPACK on the CPU", "linalg.eig-0"),
    "cupy.asarray": ("a copy: LAPACK on the CPU", "linalg.eig-0"),
    "cupy.tril": ("CuPy's own kernel", "linalg.cholesky-0"),
    "cupy.triu": ("CuPy's own kernel", "linalg.cholesky-2"),
    "cupy.where": ("CuPy's own kernel", "linalg.cholesky-0"),
    "cupy.diagonal": ("a view", "linalg.cholesky-0"),
    "cupy.broadcast_to": ("a view", "linalg.solve_triangular-0"),
    "cupy.eye": ("CuPy's own kernel", "linalg.inv-0"),
    "cupy.arange": ("CuPy's own kernel", "linalg.slogdet-0"),
    "cupy.abs": ("CuPy's own kernel", "linalg.slogdet-0"),
    "cupy.log": ("CuPy's own kernel", "linalg.slogdet-0"),
    "cupy.exp": ("CuPy's own kernel", "linalg.det-0"),
    "cupy.isfinite": ("CuPy's own kernel", "linalg.eigh-0"),
    "cupy.maximum": ("CuPy's own kernel", "linalg.pinv-0"),
}

# Calls for memory, compilation and launches, which every sample makes.
_EVERYWHERE: Final = {
    "cupy.RawModule",
    "cupy.array",
    "cupy.cuda.Event",
    "cupy.cuda.compiler._NVRTCProgram",
    "cupy.cuda.device.get_cublas_handle",
    "cupy.cuda.device.get_cusolver_handle",
    "cupy.cuda.get_current_stream",
    "cupy.empty",
}
KERNELS: Final = Path(__file__).resolve().parents[2] / "kernels" / "cuda"


def library_calls() -> set[str]:
    """Return the CuPy functions that CUDA kernels call, except those that every sample calls."""
    return {call for calls in _by_function().values() for call in calls} - _EVERYWHERE


def calls_of(kernel: tuple[str, str]) -> set[str]:
    """Return the CuPy calls of a kernel; `kernel` is (file name without .py, function).

    Calls through other functions are included. For a function outside kernels/cuda the set is
    empty.
    """
    known = _by_function()
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    ahead = [kernel]
    while ahead:
        one = ahead.pop()
        if one not in seen and one in known:
            seen.add(one)
            found |= known[one]
            ahead += _uses(one)
    return found - _EVERYWHERE


@cache
def _by_function() -> dict[tuple[str, str], set[str]]:
    """Return the direct CuPy calls of each function of each file.

    The calls in a method are listed under the name of its class.
    """
    found = {}
    for file, tree in _trees().items():
        # The whole file is searched, because files import CuPy inside functions.
        names = _names_of_cupy(tree)
        for one in tree.body:
            if isinstance(one, ast.FunctionDef | ast.ClassDef):
                calls = (node for node in ast.walk(one) if isinstance(node, ast.Call))
                found[file, one.name] = {
                    name for node in calls if (name := _dotted(node.func, names) or _by_name(node))
                }
    return found


@cache
def _trees() -> dict[str, ast.Module]:
    return {path.stem: ast.parse(path.read_text("utf-8")) for path in sorted(KERNELS.rglob("*.py"))}


def _names_of_cupy(tree: ast.Module) -> dict[str, str]:
    """Return a dict: name that a file's functions import from CuPy -> full name."""
    names = {"cupy": "cupy"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cupy"):
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return names


# Functions of solvers.py and library_product.py that look up library functions by a partial name:
# without a dtype's letter, without "Create" and "Destroy", or without a common prefix.
_LIBRARIES: Final = {
    "_solver": "cusolver.",
    "_blas": "cublas.",
    "_Parameters": "cusolver.create",
    "_lt": "cublasLt",
}


def _by_name(node: ast.Call) -> str | None:
    if isinstance(node.func, ast.Name) and node.func.id in _LIBRARIES:
        name = node.args[0]
        return f"{_LIBRARIES[node.func.id]}{name.value}" if isinstance(name, ast.Constant) else None
    return None


def _dotted(node: ast.expr, names: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value, names)):
        return f"{owner}.{node.attr}"
    return None


@cache
def _imported(file: str) -> dict[str, tuple[str, str]]:
    """Return a dict: name that a file imports -> (neighbouring file, name in that file)."""
    return {
        one.asname or one.name: ((node.module or "").rpartition(".")[2], one.name)
        for node in ast.walk(_trees()[file])
        if isinstance(node, ast.ImportFrom) and node.level
        for one in node.names
    }


@cache
def _uses(kernel: tuple[str, str]) -> frozenset[tuple[str, str]]:
    """Return the functions and classes that a function uses, from its own or neighbouring files."""
    file, name = kernel
    imported, used = _imported(file), set()
    body = next(one for one in _trees()[file].body if getattr(one, "name", None) == name)
    for node in ast.walk(body):
        if isinstance(node, ast.Name):
            used.add(imported.get(node.id, (file, node.id)))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            _, attribute = imported.get(node.value.id, (None, ""))
            if attribute in _trees():  # a module, as in indexing.gather
                used.add((attribute, node.attr))
    return frozenset(used)
