"""The cache directory for compiled kernels and generated code, and the loading of generated code.

`FASTDIST_CACHE_DIR` sets the directory; the default is `~/.cache/fastdist/<version>-<cpu>`. The
default is not in site-packages, where leftover files would take precedence over an editable
install. The files of the cache can be deleted at any time. If the directory is not writable, or if
other users could have written to it, each process compiles again.

`FASTDIST_SHIPPED_CACHE_DIR` sets a second directory, from which compiled kernels are only read. It
contains the kernels of a container image; `fastdist info --warm --into` creates it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import linecache
import logging
import os
import platform
import sys
import threading
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any, Final

from .digest import sha256
from .own_folder import ForeignFolderError, make_own_folder, require_trusted_folder

_logger = logging.getLogger(__name__)
_modules_lock = threading.Lock()  # held while a generated module runs, which uses no locks


@functools.cache
def cache_directory(name: str = "") -> str | None:
    """Return the cache directory, or a subfolder of it, and create it; None if it cannot be used.

    It cannot be used if it is not writable, or if other users could write to it: its files are code
    that runs with the rights of this user. The second reason is logged once.
    """
    path, why = _find(name)
    if why:
        _warn_once(why)
    return path


SHIPPED: Final = "FASTDIST_SHIPPED_CACHE_DIR"


@functools.cache
def shipped_directory(name: str = "") -> str | None:
    """Return the directory in the variable SHIPPED, or a subfolder of it; None if it is not used.

    Note    logs a warning if the directory is missing, or if a user other than root could write to
            it
    """
    path, why = _find_shipped(name)
    if why:
        _warn_once(why)
    return path


def why_nothing_shipped() -> str:
    """Return why the directory in the variable SHIPPED is not used; "" if it is used or not set."""
    return _find_shipped("")[1]


def _find_shipped(name: str) -> tuple[str | None, str]:
    root = os.environ.get(SHIPPED)
    if not root:
        return None, ""
    path = _joined(os.path.expanduser(root), name)
    try:
        require_trusted_folder(path)
    except (OSError, ForeignFolderError) as error:
        return None, f"no kernels are read from {SHIPPED}={root}: {error}"
    return path, ""


def why_no_cache() -> str:
    """Return why the cache directory cannot be trusted; "" if it can be trusted or is missing."""
    return _find("")[1]


def _find(name: str) -> tuple[str | None, str]:
    root = os.environ.get("FASTDIST_CACHE_DIR")
    folder = os.path.expanduser(root) if root else _default_directory()
    if folder.startswith("~"):  # the user has no home directory
        return None, ""
    path = _joined(folder, name)
    try:
        for each in dict.fromkeys((folder, path)):
            make_own_folder(each)
        if not os.access(path, os.W_OK | os.X_OK):
            return None, ""
    except OSError:
        return None, ""
    except ForeignFolderError as error:
        return None, (
            f"kernels are not cached at {folder!r}, and compile again in each process, "
            f"because others could put their code there: {error}; set FASTDIST_CACHE_DIR to a "
            "folder of your own, or remove what others could write to"
        )
    return path, ""


@functools.cache
def _warn_once(why: str) -> None:
    _logger.warning("%s", why)


def _joined(folder: str, name: str) -> str:
    return os.path.join(folder, name) if name else folder


def _default_directory() -> str:
    # From sys.modules: this package must not import the root package, which is loaded already.
    root_package = sys.modules[__name__.partition(".")[0]]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "fastdist", f"{root_package.__version__}-{_cpu()}")


def _cpu() -> str:
    """Return a short name of this CPU's instruction set. Machines with different CPUs may share a
    home directory.
    """
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            kept = [line for line in lines if line.startswith(("flags", "Features", "model name"))]
            features = "".join(sorted(set(kept)))
    except OSError:
        # Not on Linux: there, platform.processor() would start a subprocess and take 0.7 MB.
        features = platform.processor()
    return f"{platform.machine()}-{sha256(features.encode()).hexdigest()[:8]}"


def load_generated(source: str, label: str) -> ModuleType:
    """Run source code as a module, and return the module. The name of the module's file consists of
    `label` and a hash of the source.

    Thread  any; equal sources give one module
    Note    the module is in sys.modules before it runs, and has the same file name in every
            process: Numba's cache needs both
    """
    digest = sha256(source.encode()).hexdigest()[:24]
    name = f"fastdist_generated_{label}_{digest}"
    with _modules_lock:
        found = sys.modules.get(name)
        if found is not None:
            return found
        directory = cache_directory("generated")
        path = os.path.join(directory or "<fastdist>", f"{name}.py")
        if directory is not None:
            _write_once(path, source)
        return _run(name, path, source)


def _write_once(path: str, source: str) -> None:
    """Write the file unless it exists; ignore errors of the system, such as a full disk."""
    if os.path.exists(path):
        return
    import tempfile  # imported late: it takes 0.4 MB, and only processes that compile need it

    with contextlib.suppress(OSError):
        folder = os.path.dirname(path)
        os.makedirs(folder, 0o700, exist_ok=True)
        # Write a temporary file and rename it, so that other processes see a complete file or none.
        with tempfile.NamedTemporaryFile(
            "w", dir=folder, suffix=".tmp", delete=False, encoding="utf-8"
        ) as file:
            try:
                file.write(source)
                file.flush()
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise


def _run(name: str, path: str, source: str) -> ModuleType:
    loader: Any = _Loader(source, path)
    module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=path))
    module.__file__ = path
    # Tracebacks and Numba read source lines from linecache, even without a file.
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Loader:
    """Runs source code from memory. The file is for users and debuggers, and is never read back.

    There is no base class, because importlib.abc loads tempfile, shutil, bz2 and lzma: 0.8 MB.
    """

    def __init__(self, source: str, path: str) -> None:
        self._source, self._path = source, path

    def get_source(self, fullname: str) -> str:
        return self._source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self._path, "exec")

    def is_package(self, fullname: str) -> bool:
        return False

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None  # use the default module

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)
