"""`import torch` as fastdist: a finder that makes both names lead to the same modules.

The folder `pythonpath` holds a small package `torch`, which has fastdist's names and PyTorch's
version. A process with that folder on `sys.path` imports this package like any other. So
PYTHONPATH is enough for child processes: spawned children, workers of a DataLoader, other
interpreters. The finder resolves every module below `torch` to fastdist's module:
`torch.nn is fastdist.nn`, whichever name is imported first.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from .core.missing import missing_module
from .core.module_aliases import SameModule
from .core.version import TORCH_VERSION

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pythonpath")
# The public modules: all names that may follow `torch.` or `fastdist.` in an import.
ROOMS = frozenset(
    {
        "_C",
        "__config__",
        "__future__",
        "_custom_ops",
        "_dynamo",
        "_functorch",
        "_inductor",
        "_jit_internal",
        "_ops",
        "_subclasses",
        "_tensor",
        "_tensor_str",
        "_utils",
        "accelerator",
        "amp",
        "ao",
        "autograd",
        "backends",
        "compiler",
        "cpu",
        "cuda",
        "data",
        "distributed",
        "distributions",
        "export",
        "fft",
        "func",
        "functional",
        "futures",
        "fx",
        "hub",
        "info",
        "jit",
        "library",
        "linalg",
        "mps",
        "mtia",
        "multiprocessing",
        "nn",
        "onnx",
        "optim",
        "overrides",
        "profiler",
        "quantization",
        "quasirandom",
        "random",
        "serialization",
        "signal",
        "sparse",
        "special",
        "storage",
        "testing",
        "torch_version",
        "types",
        "utils",
        "version",
        "xpu",
    }
)

# Modules without a file, whose names raise an error when they are used: see core/refused_names.py.
_REFUSED_ROOMS = frozenset(
    {"_decomp", "_export", "_functorch", "_guards", "_prims_common", "masked", "nested"}
)

# The namespaces of the modules `torch` that `fill_torch` has filled: at most two modules, because
# `torch` may exist in FOLDER and in site-packages.
_filled: list[dict[str, Any]] = []


def install_as_torch() -> None:
    """Make every `import torch` of this process, and of its child processes, import fastdist.

    Raises  ImportError if the real torch is imported already
    """
    found = sys.modules.get("torch")
    if found is not None and not _is_ours(found):
        raise ImportError(
            f"install_as_torch(): torch is imported already, from {found.__file__}, and two in one "
            "process would not know each other's tensors; call install_as_torch() before the first "
            "`import torch`, or start the program by `fastdist as-torch`"
        )
    os.environ.update(environment(os.environ))
    if FOLDER not in sys.path:
        # Inserted after the script's own folder, at the place of PYTHONPATH's folders. Spawned
        # processes inherit this path.
        sys.path.insert(not sys.flags.safe_path, FOLDER)
    if found is None or found is sys.modules["fastdist"]:
        sys.modules.pop("torch", None)
        spec = PathFinder.find_spec("torch", [FOLDER])
        assert spec is not None and spec.loader is not None, FOLDER
        module = sys.modules["torch"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variable with which a new Python process imports fastdist as torch."""
    paths = [path for path in base.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths = [FOLDER, *(path for path in paths if path != FOLDER)]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def fill_torch(names: dict[str, Any], *, installed_for: str | None = None) -> None:
    """Set fastdist's names, and the PyTorch version that fastdist follows, in the module `torch`.

    `installed_for` is the version in the metadata of a `torch` that `as-torch --install` created.
    """
    if installed_for is not None:
        _check_installed(names["__file__"], installed_for)
    if not any(names is filled for filled in _filled):
        _filled.append(names)
    fastdist: Any = sys.modules["fastdist"]
    here = vars(fastdist)
    names.update({name: here[name] for name in fastdist.__all__ if name in here})
    names["__all__"] = fastdist.__all__
    names["__version__"] = TORCH_VERSION

    importlib.import_module("fastdist.core.torch_classes").show_torch_names()
    # Third-party packages iterate over vars(torch.optim), but most optimisers load on first access.
    optimisers: Any = fastdist.optim
    vars(optimisers).update({name: getattr(optimisers, name) for name in optimisers.__all__})
    # PyTorch's module contains itself as `torch`. Its `ops` holds the operators by namespace.
    names["torch"] = sys.modules["torch"]

    def find(name: str) -> Any:
        if name == "ops":
            found = names[name] = _operators()
            return found
        # Stored as an attribute, as an import would do, so that later accesses need no look-up.
        found = names[name] = fastdist.__getattr__(name)
        return found

    # `find` imports public modules on first access, and raises an error for unknown names.
    names["__getattr__"] = find
    names["__dir__"] = fastdist.__dir__


def _check_installed(file: str, version: str) -> None:
    """Warn if the metadata of the installed `torch` has another version, or no longer exists."""
    site_packages = os.path.dirname(os.path.dirname(file))
    metadata = os.path.join(site_packages, f"torch-{version}.dist-info", "METADATA")
    if version != TORCH_VERSION:
        reason = f"says version {version}, and this fastdist is {TORCH_VERSION}"
    elif not os.path.exists(metadata):
        reason = f"has no metadata any more ({metadata}): an installer removed or replaced it"
    else:
        return
    import warnings

    warnings.warn(
        f"the torch installed in {site_packages} {reason}; run `fastdist as-torch --install` again",
        stacklevel=2,
    )


def _operators() -> Any:
    """Return `torch.ops`, which differs from fastdist.ops, the package that declares the
    operators.
    """
    return importlib.import_module("fastdist._ops").ops


def _is_ours(torch: ModuleType | None) -> bool:
    """Return whether a module that was imported as `torch` is fastdist, or has been filled with
    fastdist's names.
    """
    if torch is None:
        return False
    return torch is sys.modules.get("fastdist") or any(vars(torch) is one for one in _filled)


class AsTorchFinder:
    """Finds `torch.X` if `torch` is fastdist, and leaves all other names to other finders."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec for a module below `torch`.

        Raises  ModuleNotFoundError if fastdist has no such module
        """
        root, _, rest = name.partition(".")
        if name == "functorch" and _is_ours(sys.modules.get("torch")):
            # PyTorch's distribution installs functorch as a top-level package next to `torch`.
            top: Any = SameModule(importlib.import_module("fastdist._functorch.top_level"))
            return ModuleSpec(name, top)
        if root != "torch" or not rest or not _is_ours(sys.modules.get("torch")):
            return None
        if rest in ("ops", "return_types"):
            ours: Any = sys.modules["fastdist"]
            found = _operators() if rest == "ops" else ours.return_types
            elsewhere: Any = SameModule(found)
            return ModuleSpec(name, elsewhere)
        own = f"fastdist.{rest}"
        if rest.partition(".")[0] not in ROOMS | _REFUSED_ROOMS:
            raise missing_module(name, own, ROOMS)
        try:
            module = importlib.import_module(own)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{own}.".startswith(f"{error.name}."):
                raise
            raise missing_module(name, own, ROOMS) from None
        loader: Any = SameModule(module)
        return ModuleSpec(name, loader, is_package=hasattr(module, "__path__"))


def find_torch_here() -> None:
    """Insert the finder before all other finders, unless it is already installed."""
    if not any(getattr(finder, "__name__", "") == "AsTorchFinder" for finder in sys.meta_path):
        sys.meta_path.insert(0, AsTorchFinder)
