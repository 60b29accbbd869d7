"""Base classes of PyTorch's datapipes: datasets that are chained by method calls.

User-defined pipes work. ready_pipes.py has some of PyTorch's own pipes; PyTorch's other pipes raise
an error when a program uses them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

from .dataset import Dataset, IterableDataset

P = TypeVar("P", bound=type)


class _Chained:
    """Adds a method for each registered pipe class; the method creates the next pipe of a chain."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        function = type(self).functions.get(name)
        if function is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return functools.partial(function, self)

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Register a method of all pipes; the method calls `function(pipe, ...)`."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Callable[..., Any], enable_df_api_tracing: Any = 0
    ) -> None:
        """Register a method of all pipes; the method returns `cls_to_register(pipe, ...)`.

        Raises  Exception for a name that is registered already
        """
        if function_name in cls.functions:
            raise Exception(
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )
        cls.functions[function_name] = cls_to_register

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __repr__(self) -> str:
        return type(self).__qualname__


class IterDataPipe(_Chained, IterableDataset[Any]):
    """A dataset that is read in order: a subclass implements `__iter__`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __iter__(self) -> Iterator[Any]:
        """Raise NotImplementedError: subclasses must override this method."""
        raise NotImplementedError(f"{type(self).__name__}.__iter__")

    def reset(self) -> None:
        """Restart the pipe; the base class does nothing."""


class DFIterDataPipe(IterDataPipe):
    """A pipe of data frames."""


class MapDataPipe(_Chained, Dataset[Any]):
    """A dataset that is read by keys: a subclass implements `__getitem__`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class functional_datapipe:
    """A decorator for a pipe's class: other pipes get a method that creates such a pipe."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: P) -> P:
        """Register the class.

        Raises  TypeError for a class that is not a pipe
        """
        for kind in (IterDataPipe, MapDataPipe):
            if isinstance(cls, type) and issubclass(cls, kind):
                kind.register_datapipe_as_function(self.name, cls)
                return cls
        raise TypeError("functional_datapipe can only decorate IterDataPipe or MapDataPipe")


class guaranteed_datapipes_determinism:
    """Does nothing. In PyTorch, this `with` block rejects pipes with an undetermined order."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def _unchanged(*args: Any, **kwargs: Any) -> Any:
    """Return the decorated function or class unchanged; for other arguments, such a decorator."""
    return args[0] if args and callable(args[0]) else lambda found: found


argument_validation = runtime_validation = non_deterministic = _unchanged
runtime_validation_disabled = guaranteed_datapipes_determinism
