"""The finder of modules whose names all refuse, and of modules that PyTorch has under two names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class RefusedModuleFinder:
    """Finds the modules of refused.py, which is loaded when all other finders failed."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of its tables, None for any other."""
        if not name.startswith("fastdist."):
            return None
        from .refused import spec_of

        return spec_of(name)


def find_refused_modules() -> None:
    """Add the finder after all others, once."""
    if not any(getattr(one, "__name__", "") == "RefusedModuleFinder" for one in sys.meta_path):
        sys.meta_path.append(RefusedModuleFinder)
