"""`schedule`: chooses the steps of a program that a profile records."""

from __future__ import annotations

import enum
from collections.abc import Callable

from ..core.short_repr import short_repr


class ProfilerAction(enum.Enum):
    """The action of a profile in one step. Only PyTorch's recorder uses DEVICE_STOPPED; a schedule
    never returns this action.
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Return a schedule that skips skip_first steps, and then repeats a cycle `repeat` times. If
    repeat is 0, the cycle is repeated without end.

    A cycle has `wait` steps without recording, `warmup` steps whose events are dropped, and
    `active` steps whose events are kept. With skip_first_wait, the first cycle has no `wait` steps.

    Raises  ValueError for a negative number, or if active is 0; TypeError if a number of steps is
            not an integer
    """
    given = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
    for name, number in {**given, "skip_first": skip_first}.items():
        if not isinstance(number, int):
            raise TypeError(
                f"profiler.schedule: {name} is {short_repr(number)}, expected a number of steps"
            )
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ValueError(
            f"Invalid profiler schedule arguments: wait={wait}, warmup={warmup}, active={active}, "
            f"repeat={repeat}, skip_first={skip_first}"
        )

    def act(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        step %= length
        if step < wait:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if step < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return act
