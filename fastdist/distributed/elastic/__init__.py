"""The names of PyTorch's elastic launcher; fastdist's launcher is `fastdist run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.missing import show_public
from ...core.refused import find_below

__all__ = ["multiprocessing"]

if TYPE_CHECKING:
    from . import multiprocessing as multiprocessing

    def __getattr__(name: str) -> Any: ...
else:

    def __getattr__(name: str) -> Any:
        if name == "multiprocessing":
            import importlib

            return importlib.import_module(f"{__name__}.multiprocessing")
        return find_below(__name__, name)


show_public(__name__)
