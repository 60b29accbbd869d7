"""Functions that PyTorch has removed: they only raise an error that names a replacement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..dispatch.composite import composite

_INSTEAD = {
    "eig": "linalg.eig",
    "lstsq": "linalg.lstsq, with its arguments the other way round",
    "matrix_rank": "linalg.matrix_rank, where `symmetric` is called `hermitian`",
    "solve": "linalg.solve, with its arguments the other way round",
    "symeig": "linalg.eigh, or linalg.eigvalsh for values alone; UPLO='U' for upper=True",
}


def _removed(name: str, instead: str) -> Callable[..., NoReturn]:
    def removed(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"{name}(): This function was deprecated since version 1.9 and is now removed; use "
            f"{instead}"
        )

    removed.__name__ = removed.__qualname__ = name
    removed.__doc__ = f"Raise RuntimeError: removed from PyTorch; use {instead}."
    return removed


for _name, _instead in _INSTEAD.items():
    _homes = "function" if _name == "matrix_rank" else "function method"
    composite(name=_name, homes=_homes)(_removed(_name, _instead))
