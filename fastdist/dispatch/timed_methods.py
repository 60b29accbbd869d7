"""Methods of tensors that no op stands for, told to a profile: replaced while one records.

With the profiler off they are what they were, and are called as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from ..core.time_ranges import time_ranges
from ..tensor.tensor import Tensor
from .timing import told_alone

# Method -> PyTorch's name for its event.
_EVENTS: Final = {
    "__bool__": "is_nonzero",
    "copy_": "copy_",
    "detach": "detach",
    "fill_": "fill_",
    "item": "item",
    "reshape": "reshape",
    "zero_": "zero_",
}


def install() -> None:
    """Replace the methods whenever a profile records.

    Note    called once, when Tensor has its methods
    """
    owners = {name: next(one for one in Tensor.__mro__ if name in vars(one)) for name in _EVENTS}
    plain = {name: vars(owner)[name] for name, owner in owners.items()}
    timed = {name: _telling(f"aten::{event}", plain[name]) for name, event in _EVENTS.items()}

    def switch(is_on: bool) -> None:
        for name, method in (timed if is_on else plain).items():
            setattr(owners[name], name, method)

    time_ranges.watch("on", switch)


def _telling(event: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def method(*args: Any, **kwargs: Any) -> Any:
        return told_alone(event, plain, args, kwargs)

    return method
