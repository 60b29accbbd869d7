"""PyTorch's switches for how Modules are converted. fastdist always converts them in place.

Parameters stay the same objects when a Module is moved or converted. The switches are stored and
returned, because third-party packages set them, but they have no effect.
"""

from __future__ import annotations

from .core.missing import explain_missing

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]

_switches = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Store a switch that has no effect: a converted Module always keeps its parameters."""
    _switches["overwrite"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return the value last stored by `set_overwrite_module_params_on_conversion`, or False."""
    return _switches["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Store a switch that has no effect: a conversion always changes the parameters' contents in
    place, and never swaps them.
    """
    _switches["swap"] = value


def get_swap_module_params_on_conversion() -> bool:
    """Return the value last stored by `set_swap_module_params_on_conversion`, or False."""
    return _switches["swap"]


explain_missing(__name__)
