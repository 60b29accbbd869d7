"""Maps fastdist's classes and functions to PyTorch's names in files, and back.

A pickle names the functions that make its values. fastdist writes PyTorch's names, so that both
libraries can read the file.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

from ..core import dtypes
from ..core.device import Device
from ..tensor.layout import Size
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from ..tensor.typed_storage import TYPED_STORAGES, UntypedStorage
from . import rebuilding

Name = tuple[str, str]

_OWN: Final[dict[Name, Any]] = {
    ("torch", "Size"): Size,
    ("torch", "device"): Device,
    ("torch", "Tensor"): Tensor,
    ("torch._tensor", "Tensor"): Tensor,
    ("torch.nn.parameter", "Parameter"): Parameter,
    ("torch._utils", "_rebuild_tensor"): rebuilding.rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): rebuilding.rebuild_tensor_v2,
    (
        "torch._utils",
        "_rebuild_meta_tensor_no_storage",
    ): rebuilding.rebuild_meta_tensor_no_storage,
    ("torch._utils", "_rebuild_tensor_v3"): rebuilding.rebuild_tensor_v3,
    ("torch._utils", "_rebuild_sparse_tensor"): rebuilding.rebuild_sparse_tensor,
    ("torch.serialization", "_get_layout"): rebuilding.get_layout,
    ("torch._utils", "_rebuild_parameter"): rebuilding.rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): rebuilding.rebuild_parameter_with_state,
    ("torch._tensor", "_rebuild_from_type_v2"): rebuilding.rebuild_from_type_v2,
    **{("torch", dtype.name): dtype for dtype in dtypes.ALL},
    ("torch.storage", "UntypedStorage"): UntypedStorage,
    ("torch", "UntypedStorage"): UntypedStorage,
    **{("torch", name): kind for name, kind in TYPED_STORAGES.items()},
    # Files before 1.6 use other class names for storages of a GPU.
    **{("torch.cuda", name): kind for name, kind in TYPED_STORAGES.items()},
}
# Storage classes of PyTorch with dtypes that fastdist does not have. A file with such a storage is
# valid, so the error names the dtype.
_MISSING_DTYPES: Final = {
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
}
# If an object has several names in PyTorch, the first one is written.
TO_TORCH: Final[dict[Any, Name]] = {}
for _name, _thing in _OWN.items():
    TO_TORCH.setdefault(_thing, _name)
TO_TORCH[Tensor] = ("torch._tensor", "Tensor")


def own(module: str, name: str) -> Any:
    """Return the object for one of PyTorch's names in a fixed list; None for other names.

    Raises  NotImplementedError for a dtype that fastdist does not have
    """
    found = _OWN.get((module, name))
    if found is None and module.startswith("torch"):
        missing = _MISSING_DTYPES.get(name)
        if missing is not None:
            known = ", ".join(dtype.name for dtype in dtypes.ALL)
            raise NotImplementedError(
                f"this file holds {missing}, which fastdist does not have (it has {known}); save "
                "it again in another dtype, with PyTorch"
            )
    return found


def find(module: str, name: str) -> Any:
    """Return the object for any of PyTorch's names: fastdist's object of the same name.

    `torch.nn.modules.linear.Linear` is looked up in fastdist.nn.modules.linear, then in
    fastdist.nn.modules, in fastdist.nn and in fastdist.

    Raises  AttributeError if fastdist does not have an object of this name
    """
    found = own(module, name)
    if found is not None:
        return found
    root = __package__.partition(".")[0]
    parts = module.split(".")[1:]
    for length in range(len(parts), -1, -1):
        home = ".".join([root, *parts[:length]])
        try:
            import_module(home)
        except ImportError:
            continue
        thing: Any = sys.modules[home]
        try:
            for step in name.split("."):
                thing = getattr(thing, step)
        except AttributeError:
            continue
        return thing
    found = _defined_by_program(module, name)
    if found is not None:
        return found
    raise AttributeError(
        f"this file needs {module}.{name}, and fastdist has nothing of that name; save the "
        "state_dict() instead of the whole object, with PyTorch"
    )


def _defined_by_program(module: str, name: str) -> Any:
    """Return the object of a module that the program itself has added below `torch`.

    Return None if there is no such object.
    """
    torch, thing = sys.modules.get("torch"), sys.modules.get(module)
    if torch is None or getattr(torch, "Tensor", None) is not Tensor:
        return None
    for step in name.split("."):
        thing = getattr(thing, step, None)
    return thing
