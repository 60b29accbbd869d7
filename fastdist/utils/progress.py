"""The progress bar of downloads: tqdm, or no bar if it is not installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

from ..core.missing import find_late


class _NoProgress:
    """Replaces tqdm: an iterator over an iterable that shows no bar."""

    def __init__(self, iterable: Iterable[Any] = (), *args: Any, **kwargs: Any) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)

    def update(self, n: float = 1) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> _NoProgress:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def __getattr__(name: str) -> Any:
    """Return the class `tqdm` of the package tqdm, or a class without a bar if it is not installed.

    Raises  AttributeError for any other name
    """
    if name != "tqdm":
        return find_late(__name__, name)
    try:
        return importlib.import_module("tqdm").tqdm
    except ModuleNotFoundError:
        return _NoProgress
