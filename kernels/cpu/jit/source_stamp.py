"""Hashes of the sources, packages and processor that compiled code depends on.

Computing them does not need Numba.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import re
import sys
from typing import Final

import numpy as np

from fastdist.system.blas import read_cpu
from fastdist.system.digest import sha256

# Note [Sources of a kernel] Compiled code contains code, numbers and generated text of the modules
# that its own module imports, directly or not. The imports are found in the text, in functions and
# in generated code too. Hashing the 10 to 25 sources of a kernel takes about 1 ms (Python 3.11, AMD
# EPYC, Zen 4), and each source is hashed once per process. Only imports from the packages with
# computations count: the others have nothing that a kernel contains.
_IMPORT: Final = re.compile(rb"from (\.+|fastdist\.)([\w.]*) import (\([^)]*\)|.*)")
_COMPUTING: Final = ("fastdist.kernels.", "fastdist.language.", "fastdist.random_numbers.")
_WORD: Final = re.compile(r"\w+")
_KERNELS: Final = __package__.rpartition(".")[0]
_FOLDER: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGES: Final = ("numba", "llvmlite")
# Environment variables of Numba that do not change the code.
_OF_NO_CODE: Final = frozenset({"NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "NUMBA_CACHE_DIR"})
_OBJECT_BYTES: Final = 16


@functools.cache
def module_stamp(module: str) -> str:
    """Return the text_stamp of a module of kernels/cpu, such as "nn.ctc_loops"."""
    name = f"{_KERNELS}.{module}"
    return text_stamp(_read(name), name)


def text_stamp(text: bytes, module: str) -> str:
    """Return a hash of a module's source, of the sources that it imports (see Note [Sources of a
    kernel]), and of Numba's version.
    """
    found: set[str] = set()
    new = _imports(text, module)
    while new:
        found |= new
        new = frozenset().union(*(_hashed(name)[1] for name in new)) - found
    digest = sha256(_versions().encode() + text)
    for name in sorted(found):
        digest.update(_hashed(name)[0])
    return str(digest.hexdigest()[:32])


@functools.cache
def _hashed(module: str) -> tuple[bytes, frozenset[str]]:
    """Return the hash of a module's source, and the names of the modules that it imports."""
    text = _read(module)
    return bytes(sha256(text).digest()), _imports(text, module)


def _imports(text: bytes, module: str) -> frozenset[str]:
    found = set()
    for start, rest, names in _IMPORT.findall(text):
        above = start.count(b".") if start[:1] == b"." else 0
        base = ".".join([*(module.split(".")[:-above] if above else ["fastdist"]), rest.decode()])
        if not base.startswith(_COMPUTING):
            continue
        if os.path.isfile(_path(base)):
            found.add(base)
        else:  # a package, so the names may be modules
            members = {f"{base.rstrip('.')}.{name}" for name in _WORD.findall(names.decode())}
            found |= {name for name in members if os.path.isfile(_path(name))}
    return frozenset(found)


def _read(module: str) -> bytes:
    with open(_path(module), "rb") as file:
        return file.read()


def _path(module: str) -> str:
    inside = module.removeprefix(f"{_KERNELS}.")
    if inside != module:
        return os.path.join(_FOLDER, *inside.split(".")) + ".py"
    package, _, inside = module.partition(".")
    return os.path.join(sys.modules[package].__path__[0], *inside.split(".")) + ".py"


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
