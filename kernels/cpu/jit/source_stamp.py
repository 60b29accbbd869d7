"""Hashes of the sources, packages and processor that compiled code depends on.

Computing them does not need Numba.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import sys
from typing import Final

import numpy as np

from fastdist.system.blas import read_cpu
from fastdist.system.digest import sha256

# Sources that any compiled function may inline: a change in one of them invalidates all kernels.
_INLINED: Final = (
    *(
        f"jit/{name}.py"
        for name in (
            "machine", "machine_code", "iteration", "compiler", "numba_inlining", "numba_passes",
            "object_emitter", "vectors",
        )
    ),
    *(
        f"pointwise/{name}.py"
        for name in ["vector_math", "polynomials", "special", "bessel", "orthogonal_polynomials"]
    ),
    *(
        f"rows/{name}.py"
        for name in (
            "row_code", "along_row_code", "code_loops", "row_numbers", "wide_row_code",
            "column_code", "short_row_code", "row_steps", "exact_row_code", "small_row_steps",
        )
    ),
    "index/bounds.py",
    "create/philox_loops.py",
)  # fmt: skip
_FOLDER: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGES: Final = ("numba", "llvmlite")
# Environment variables of Numba that do not change the code.
_OF_NO_CODE: Final = frozenset({"NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "NUMBA_CACHE_DIR"})
_OBJECT_BYTES: Final = 16


@functools.cache
def sources_stamp() -> str:
    """Return a hash of Numba's version and of the sources that compiled functions inline."""
    digest = sha256(_versions().encode())
    for name in _INLINED:
        digest.update(_read(name))
    return str(digest.hexdigest()[:16])


@functools.cache
def module_stamp(module: str) -> str:
    """Return a hash of a module of kernels/cpu, such as "nn.ctc_loops", and of all sources that it
    may inline.
    """
    content = _read(f"{module.replace('.', '/')}.py")
    return str(sha256(content).hexdigest()[:16]) + sources_stamp()


def _read(name: str) -> bytes:
    with open(os.path.join(_FOLDER, name), "rb") as file:
        return file.read()


@functools.cache
def _versions() -> str:
    """Return the versions of the packages that compile, as a string, without importing them."""
    found = []
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            found.append("")
            continue
        [folder, *_] = spec.submodule_search_locations
        with open(os.path.join(folder, "_version.py"), encoding="utf-8") as file:
            found.append(file.read())
    return "\n".join(found)


@functools.cache
def machine_stamp() -> str:
    """Return a string of the processor, Python and NumPy: object code depends on these as well."""
    cpu = read_cpu()
    parts = (
        *(cpu.vendor, cpu.family, cpu.model, *sorted(cpu.features)),
        *(sys.implementation.cache_tag, getattr(sys, "abiflags", ""), np.__version__),
    )
    return "\n".join(map(str, parts))


@functools.cache
def can_round_float16() -> bool:
    """Return whether compiled code may use float16: see Note [Half types in memory]."""
    if can_load_objects():
        return "f16c" in read_cpu().features
    from .machine import has_float16

    return has_float16()


@functools.cache
def can_load_objects() -> bool:
    """Return whether this process can load object code. It can on x86-64 Linux with standard
    CPython, unless an environment variable or a file configures how Numba generates code.
    """
    configured = [
        name for name in os.environ if name.startswith("NUMBA_") and name not in _OF_NO_CODE
    ]
    return (
        sys.platform == "linux"
        and platform.machine() == "x86_64"
        and sys.maxsize > 1 << 32
        and sys.implementation.name == "cpython"
        and object.__basicsize__ == _OBJECT_BYTES
        and bool(read_cpu().features)
        and not configured
        and not os.path.exists(".numba_config.yaml")
    )
