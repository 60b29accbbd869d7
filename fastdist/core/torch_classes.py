"""fastdist's classes under PyTorch's names, for processes in which `import torch` is fastdist.

Third-party packages search for "torch" in `type(x).__module__`, in the text of a class, and in the
`repr` of its instances. So `fill_torch` renames the classes of torch_class_names.py, now or when
their module is imported.

Note [Names in pickles] A pickle refers to a class by `__module__` and `__qualname__`, but a process
without as-torch has no module `torch`. So `__module__` is a `TorchName`, a string that reads as
PyTorch's name but pickles as fastdist's. This works from pickle protocol 4 on, which writes
`__module__` as a value; protocols 2 and 3 write PyTorch's names. Classes with another name in
PyTorch, such as `device` for Device, have a row in moved_names.py. Files of `save` and bodies of
RPC messages refer to classes by `own_name`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, ForwardRef

from .moved_modules import RENAMED
from .tables.torch_class_names import ROWS

_ROOT = "fastdist"


class TorchName(str):
    """A string that reads as PyTorch's name and pickles as fastdist's. See Note [Names in
    pickles].
    """

    __slots__ = ("own",)
    own: str

    def __new__(cls, shown: str, own: str) -> TorchName:
        """Return the string `shown`, which pickles as `own`."""
        made = super().__new__(cls, shown)
        made.own = own
        return made

    def __copy__(self) -> TorchName:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TorchName:
        return self

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return str, (self.own,)

    def __reduce_ex__(self, protocol: Any) -> tuple[type, tuple[str]]:
        return str, (self.own,)


@functools.cache
def _rows() -> dict[str, dict[str, tuple[str, str]]]:
    """Return the map module -> class -> (PyTorch's module, PyTorch's name)."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for ours, theirs, names in ROWS:
        classes = found.setdefault(f"{_ROOT}.{ours}".rstrip("."), {})
        for name in names.split():
            own, _, shown = name.partition(">")
            classes[own] = (f"torch.{theirs}".rstrip("."), shown or own)
    return found


# Classes whose repr contains "fastdist": (module, class).
_WITH_TEXTS = (
    ("core.dtypes", "DType"),
    ("core.memory_format", "MemoryFormat"),
    ("core.memory_format", "MemoryLayout"),
    ("core.quantization_schemes", "qscheme"),
    ("ops.return_types", "_Printed"),
    ("tensor.layout", "Size"),
    ("tensor.typed_storage", "TypedStorage"),
    ("tensor.typed_storage", "UntypedStorage"),
)


def show_torch_names() -> None:
    """Rename classes to PyTorch's names: now, or as soon as their module is loaded."""
    for name in _rows():
        if name in sys.modules:
            rename_classes(sys.modules[name])
    if _RenamingFinder not in sys.meta_path:
        sys.meta_path.insert(0, _RenamingFinder)


def rename_classes(module: ModuleType) -> None:
    """Rename the classes that a module defines to PyTorch's names, and make the reprs of their
    instances the same as in PyTorch.
    """
    for name, (home, shown) in _rows()[module.__name__].items():
        kind = vars(module).get(name)
        if not isinstance(kind, type) or kind in RENAMED:
            continue
        _rename(kind, home, shown)
        if (module.__name__.removeprefix(f"{_ROOT}."), name) in _WITH_TEXTS:
            _show_torch_texts(kind)
        elif shown == "Generator":
            setattr(kind, "__repr__", object.__repr__)  # noqa: B010


def _rename(kind: type, module: str, name: str) -> None:
    """Make a class appear as `module.name`, and pickle under its own name."""
    RENAMED[kind] = own = (kind.__module__, kind.__qualname__)
    _resolve_annotations(kind, vars(sys.modules[own[0]]))
    kind.__module__ = TorchName(module, own[0])
    if name != own[1]:
        kind.__name__ = kind.__qualname__ = name


def _resolve_annotations(kind: type, names: dict[str, Any]) -> None:
    """Replace annotations that are strings by the objects to which they refer. Otherwise
    `typing.get_type_hints` of a subclass would look up the strings in the module that the new
    `__module__` names. Names that exist only for type checkers become Any.
    """
    annotations: dict[str, Any] = vars(kind).get("__annotations__", {})
    for name, text in annotations.items():
        text = text.__forward_arg__ if isinstance(text, ForwardRef) else text
        if isinstance(text, str):
            try:
                annotations[name] = eval(text, names)
            except Exception:
                annotations[name] = Any


def _show_torch_texts(kind: type) -> None:
    """Replace "fastdist" by "torch" in the repr of a class's instances."""
    written: Any = kind.__repr__

    def text(self: Any) -> str:
        return str(written(self)).replace(f"{_ROOT}.", "torch.")

    for method in ("__repr__", "__str__"):
        if method in vars(kind):
            setattr(kind, method, text)


class _RenamingFinder:
    """Finds the modules of the table, so that their classes are renamed after they are loaded."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the table; None for any other."""
        if not name.startswith(_ROOT) or name not in _rows():
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Renaming(spec.loader)  # type: ignore[assignment]
        return spec


class _Renaming:
    """A loader that runs another loader and then renames the classes of the module."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module that the wrapped loader creates, or None."""
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, then rename its classes."""
        self._loader.exec_module(module)
        rename_classes(module)
