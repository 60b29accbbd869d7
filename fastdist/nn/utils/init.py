"""skip_init, which makes a module without initializing its parameters."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from ...core.folded_frames import fold_public
from ..init import skipped
from ..module import Module

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """Return module_cls(*args, **kwargs) with uninitialized parameters, to be loaded later.

    Raises  RuntimeError for a class that is not a Module, or whose constructor has no parameter
            `device`
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with skipped():
        return module_cls(*args, **kwargs)


fold_public(__name__)
