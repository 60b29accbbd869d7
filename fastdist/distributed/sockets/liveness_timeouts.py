"""How long a silent worker is waited for: by its peers, and by launchers of other nodes."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from numbers import Real
from typing import Final

FROZEN_S: Final = 10.0
GRACE_S: Final = 1.0
# The time in which a broken connection is detected, and made again.
LEAST_FROZEN_S: Final = 3.0

# So many workers a core take turns without anybody being late; with more of them what nobody has
# chosen is so many times as long as there are more, up to a bound. 64 workers on 2 cores that all
# call each other for the first time are each without a core for seconds.
_WORKERS_A_CORE: Final = 4
_MOST_CROWDED: Final = 30.0

# What launchers tell each worker: how many workers of the job run on this machine.
_WORKERS_HERE_VARIABLE: Final = "LOCAL_WORLD_SIZE"

_FROZEN_VARIABLE: Final = "FASTDIST_FROZEN_S"
_GRACE_VARIABLE: Final = "FASTDIST_GRACE_S"


def frozen_s(
    chosen: object = None,
    environment: Mapping[str, str] = os.environ,
    *,
    default: float = FROZEN_S,
) -> float:
    """Return how long a worker or a node without a sign of life is waited for.

    Raises  TypeError or ValueError naming the option or the variable
    """
    if chosen is not None:
        return _seconds("frozen_s", chosen, LEAST_FROZEN_S)
    said = _said(_FROZEN_VARIABLE, environment, LEAST_FROZEN_S)
    return default if said is None else said


def grace_s(chosen: object = None, environment: Mapping[str, str] = os.environ) -> float | None:
    """Return how long an address may refuse connections; None where nobody has chosen.

    Raises  TypeError or ValueError naming the option or the variable
    """
    if chosen is not None:
        return _seconds("grace_s", chosen, 0.0)
    return _said(_GRACE_VARIABLE, environment, 0.0)


def is_chosen(chosen: object = None, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether frozen_s was said, by the option or by the environment."""
    return chosen is not None or bool(environment.get(_FROZEN_VARIABLE))


def crowding(num_workers: int, num_cores: int | None = None) -> float:
    """Return how many times as long workers of a crowded machine are waited for; 1 or more.

    Without a number of cores it is that of the cores that this process may use.
    """
    if num_cores is None:
        has_affinity = hasattr(os, "sched_getaffinity")
        num_cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(_MOST_CROWDED, max(1.0, num_workers / num_cores / _WORKERS_A_CORE))


def crowding_here(environment: Mapping[str, str] = os.environ) -> float:
    """Return `crowding` by what the launcher says of this machine; 1 where it says nothing."""
    told = environment.get(_WORKERS_HERE_VARIABLE, "")
    return crowding(int(told)) if told.isascii() and told.isdecimal() else 1.0


def _said(variable: str, environment: Mapping[str, str], least: float) -> float | None:
    text = environment.get(variable, "")
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{variable} is {text!r}; expected a number of seconds") from None
    return _seconds(variable, number, least)


def _seconds(name: str, value: object, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r}; expected a number of seconds")
    if not least <= float(value) < math.inf:
        raise ValueError(f"{name} is {value!r}; expected seconds, {least:g} or more")
    return float(value)
