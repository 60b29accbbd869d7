"""Writes tests/namespace/torch_names.json: PyTorch's public names, and those fastdist lacks.

With torch          python bench/torch_names.py names
                    python bench/torch_names.py modules     (the modules that `import torch` loads)
With fastdist       python -m bench.torch_names lacking     (after names were added to fastdist)
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

_JSON = Path(__file__).parents[1] / "tests/namespace/torch_names.json"
ROOMS = (
    "", "Tensor", "accelerator", "amp", "autograd", "autograd.forward_ad",
    "autograd.functional", "autograd.graph", "autograd.profiler", "cuda", "distributions",
    "fft", "func", "futures", "linalg", "multiprocessing", "nn", "nn.attention",
    "nn.functional", "nn.init", "nn.Module", "nn.modules", "nn.parallel", "nn.utils",
    "nn.utils.parametrizations", "nn.utils.parametrize", "nn.utils.prune", "nn.utils.rnn",
    "nn.utils.stateless", "optim", "optim.lr_scheduler", "optim.swa_utils", "overrides",
    "profiler", "random", "signal.windows", "special", "types", "utils", "utils.benchmark",
    "utils.checkpoint", "utils.data", "utils.dlpack", "utils.hooks", "utils.model_zoo",
    "utils.module_tracker", "utils.weak",
)  # fmt: skip

# Names that are public only by accident: users do not import them from PyTorch's modules.
_NOT_OFFERED = frozenset({"S", "T", "TYPE_CHECKING", "common_args", "multi_dim_common"})


def room(top: str, path: str) -> Any:
    """Return the module or class at a path below the package `top`."""
    *above, last = (top, *path.split(".")) if path else (top,)
    if last[0].isupper():
        return getattr(importlib.import_module(".".join(above)), last)
    return importlib.import_module(".".join((*above, last)))


def lacking(top: str, path: str, names: list[str]) -> list[str]:
    """Return the members of `names` that the module or class at `path` below `top` lacks."""
    try:
        found = room(top, path)
    except ImportError:
        return names
    return [name for name in names if not hasattr(found, name)]


def _public(home: Any) -> list[str]:
    """Return a module's public names: those in `__all__`, and those in `dir()` but for imports."""
    listed = set(getattr(home, "__all__", ()))
    for name in dir(home):
        one = getattr(home, name, None)
        # Skip modules, objects of other packages, and classes of torch._C, which exist for typing.
        from_elsewhere = isinstance(one, ModuleType) or not str(
            getattr(one, "__module__", None) or "torch"
        ).startswith("torch")
        typing_alone = getattr(one, "__module__", "") == "torch._C" and inspect.isclass(one)
        if not name.startswith("_") and not from_elsewhere and not typing_alone:
            listed.add(name)
    hidden = {name for name in listed if name.startswith("_") or name in _NOT_OFFERED}
    return sorted(listed - hidden)


def _modules(home: ModuleType, path: str = "") -> list[str]:
    """Return the paths of public modules that are attributes of a module or of its submodules."""
    found = []
    for name, one in sorted(vars(home).items()):
        is_below = isinstance(one, ModuleType) and one.__name__ == f"{home.__name__}.{name}"
        if is_below and not name.startswith("_"):
            found += [f"{path}{name}", *_modules(one, f"{path}{name}.")]
    return found


def read() -> dict[str, dict[str, list[str]]]:
    """Return the JSON file's dict: "names", "lacking" and "modules", each from module to names."""
    lists = json.loads(_JSON.read_text())
    return {
        kind: {path: " ".join(lines).split() for path, lines in lists.get(kind, {}).items()}
        for kind in ("names", "lacking", "modules")
    }


def _write(kind: str, lists: dict[str, list[str]]) -> None:
    whole = json.loads(_JSON.read_text()) if _JSON.exists() else {}
    whole[kind] = {path: textwrap.wrap(" ".join(names), 96) for path, names in lists.items()}
    _JSON.write_text(json.dumps(whole, indent=1) + "\n")
    sys.stdout.write(f"{sum(map(len, lists.values()))} names: {kind}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["names"]:
        _write("names", {path: _public(room("torch", path)) for path in ROOMS})
    elif sys.argv[1:] == ["modules"]:
        _write("modules", {"": _modules(importlib.import_module("torch"))})
    else:
        given = read()["names"]
        _write("lacking", {path: lacking("fastdist", path, given[path]) for path in given})
