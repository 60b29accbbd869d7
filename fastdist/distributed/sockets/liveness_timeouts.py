"""How long peers, and launchers of other nodes, wait for a silent worker."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from numbers import Real
from typing import Final

FROZEN_S: Final = 10.0
GRACE_S: Final = 1.0
# The time to detect a broken connection and to connect again.
LEAST_FROZEN_S: Final = 3.0

# With at most this many workers per core, each worker gets a core in time. With more workers per
# core, the default timeouts are multiplied by the ratio of their number to this number, but at most
# by _MOST_CROWDED. If 64 workers on 2 cores all call each other for the first time, each worker
# waits for a core for seconds.
_WORKERS_A_CORE: Final = 4
_MOST_CROWDED: Final = 30.0

_FROZEN_VARIABLE: Final = "FASTDIST_FROZEN_S"
_GRACE_VARIABLE: Final = "FASTDIST_GRACE_S"


def frozen_s(
    chosen: object = None,
    environment: Mapping[str, str] = os.environ,
    *,
    default: float = FROZEN_S,
) -> float:
    """Return how long to wait for a worker or a node that gives no sign of life.

    Raises  TypeError or ValueError naming the option or the variable
    """
    if chosen is not None:
        return _seconds("frozen_s", chosen, LEAST_FROZEN_S)
    said = _said(_FROZEN_VARIABLE, environment, LEAST_FROZEN_S)
    return default if said is None else said


def grace_s(chosen: object = None, environment: Mapping[str, str] = os.environ) -> float | None:
    """Return how long an address may refuse connections; None if no value was chosen.

    Raises  TypeError or ValueError naming the option or the variable
    """
    if chosen is not None:
        return _seconds("grace_s", chosen, 0.0)
    return _said(_GRACE_VARIABLE, environment, 0.0)


def is_chosen(chosen: object = None, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether frozen_s was chosen, by the option or by the environment."""
    return chosen is not None or bool(environment.get(_FROZEN_VARIABLE))


def crowding(num_workers: int, num_cores: int | None = None) -> float:
    """Return the factor, 1 or more, for timeouts on a crowded machine.

    `num_cores` defaults to the number of cores that this process may use.
    """
    if num_cores is None:
        has_affinity = hasattr(os, "sched_getaffinity")
        num_cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(_MOST_CROWDED, max(1.0, num_workers / num_cores / _WORKERS_A_CORE))


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
