"""How Modules are converted, as PyTorch's programs choose it: in place, whatever is chosen.

Parameters stay the same objects when a Module is moved or converted. The switches are kept and
returned, since packages set them; they change nothing.
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
    """Remember whether converting a Module makes new parameters; here it always keeps them."""
    _switches["overwrite"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return the value of set_overwrite_module_params_on_conversion; False unless set."""
    return _switches["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Remember whether converting a Module swaps its parameters' contents; here they are replaced
    in place in any case.
    """
    _switches["swap"] = value


def get_swap_module_params_on_conversion() -> bool:
    """Return the value of set_swap_module_params_on_conversion; False unless set."""
    return _switches["swap"]


explain_missing(__name__)
