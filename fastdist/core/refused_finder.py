"""The finder of modules with only refused names, and of modules with two names in PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class RefusedModuleFinder:
    """Finds the modules of refused.py. It imports refused.py when all other finders have failed."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the tables; None for any other."""
        if not name.startswith("fastdist."):
            return None
        from .refused import spec_of

        return spec_of(name)


def find_refused_modules() -> None:
    """Add the finder after all other finders, unless it is already installed."""
    if not any(getattr(one, "__name__", "") == "RefusedModuleFinder" for one in sys.meta_path):
        sys.meta_path.append(RefusedModuleFinder)
