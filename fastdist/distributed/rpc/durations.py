"""How long something may take, as a user says it."""

from __future__ import annotations

import math
from numbers import Real
from typing import Final

from .bindings import INCOMPATIBLE

# What is longer is as good as never, and more than threads can wait for.
LONGEST_S: Final = 1e9


def seconds(name: str, value: object) -> float:
    """Return a number of seconds; 0 stands for no limit, as does infinity.

    Raises  TypeError for what is no number, ValueError for a negative one
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{INCOMPATIBLE}{name} is {value!r}; expected a number of seconds")
    given = float(value)
    if not given >= 0:
        raise ValueError(f"{name} is {value!r}; expected seconds, 0 or more (0: without limit)")
    return 0.0 if given == math.inf else min(given, LONGEST_S)
