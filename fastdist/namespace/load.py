"""Imports the whole catalogue, attaches its declarations to Tensor, and collects the public names.

Importing this module completes Tensor.
"""

from __future__ import annotations

import sys
from typing import Any

from ..graph import tensor_methods  # noqa: F401
from ..interpreters import observed_methods
from ..interpreters.batch_loop import STACK
from ..interpreters.torch_function import overridable_method
from ..ops.create import creation, ranges
from ..ops.shape import views
from ..ops.sparse import conversion
from ..tensor.methods import TensorMethods
from .activations import activations
from .attach import attach_all
from .catalogue import COMPOSITES, OPS
from .functions import attach_methods
from .names import ALIASES, INPLACE_FUNCTIONS, INPLACE_METHODS
from .tracing import trace

# In-place methods that are written by hand and not made from ops.
_WRITTEN_BY_HAND = ("as_strided_", "detach_", "resize_as_", "zero_")


def declared_in(home: str) -> dict[str, Any]:
    """Return a dict from name to function, for all declarations with this home (see HOMES)."""
    names = {name: op.public for name, op in OPS.items() if home in op.homes}
    composites = [one for one in COMPOSITES.values() if home in one.homes]
    return names | {one.name.rpartition(".")[2]: one.call for one in composites}


def gather() -> dict[str, Any]:
    """Return a dict from name to function, for the catalogue's functions in `fastdist`."""
    names = declared_in("function")
    for room in (creation, ranges):
        names.update({name: getattr(room, name) for name in room.__all__})
    names["sparse_coo_tensor"] = conversion.sparse_coo_tensor
    names.update(t=views.t, reshape=views.reshape, detach=views.detach)
    names["trace"] = trace
    names.update({alias: names[name] for alias, name in ALIASES.items() if name in names})
    names.update({name: getattr(TensorMethods, name) for name in _inplace_functions()})
    names.update({name: overridable_method(names[name]) for name in _WRITTEN_BY_HAND})
    return names


def _inplace_functions() -> list[str]:
    """Return the names of in-place methods that are also functions."""
    known = {name for name, op in OPS.items() if op.kind == "pointwise" and len(op.tensors) == 1}
    known = {name for name in known if {"function", "inplace"} <= OPS[name].homes}
    known |= INPLACE_FUNCTIONS
    known |= {alias for alias, name in ALIASES.items() if name in known}
    return [f"{name}_" for name in sorted(known - INPLACE_METHODS)]


def gather_functional() -> dict[str, Any]:
    """Return a dict from name to function, for functions in `fastdist.nn.functional`."""
    names = declared_in("functional")
    for name, op in OPS.items():
        if "activation" in op.homes:
            names.update(activations(op, names.get(name, op.public)))
    return names


def set_qualified_names(names: dict[str, Any], module: str) -> None:
    """Set each function's `__module__` to `module`, and its `__qualname__` to its name in `names`,
    unless the function can be found by its current names. Pickle looks a function up by both.
    """
    for name, function in names.items():
        own = function.__qualname__
        at_home = getattr(sys.modules.get(function.__module__), own, None) is function
        if at_home or (function.__module__ == "fastdist" and NAMES.get(own) is function):
            continue
        if names.get(own) is not function:
            function.__qualname__ = name
        function.__module__ = module


attach_all()
attach_methods()
observed_methods.install()
STACK.append(COMPOSITES["stack"].call)
NAMES = gather()
FUNCTIONAL_NAMES = gather_functional()
LINALG = declared_in("linalg")
FFT = declared_in("fft")
SPECIAL = declared_in("special")
set_qualified_names(NAMES, "fastdist")
set_qualified_names(SPECIAL, "fastdist.special")
set_qualified_names(LINALG, "fastdist.linalg")
set_qualified_names(FFT, "fastdist.fft")
set_qualified_names(FUNCTIONAL_NAMES, "fastdist.nn.functional")
for _op in OPS.values():
    if _op.homes & {"functional", "activation"} and not _op.homes & {"function", "method"}:
        _op.offered_as = FUNCTIONAL_NAMES[_op.name]  # users never call the op's own function
