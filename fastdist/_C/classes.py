"""`torch.classes`, for classes written in C++: not supported."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.missing import explain_missing

loaded_libraries: set[str] = set()


def load_library(path: Any) -> NoReturn:
    """Raise NotImplementedError: libraries that are compiled for PyTorch do not work here."""
    raise NotImplementedError(
        f"classes.load_library({path!r}): code that is compiled for PyTorch's memory does not work "
        "here: use the program's version in Python"
    )


explain_missing(__name__)
