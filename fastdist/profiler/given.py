"""Validates the arguments of profiles before recording begins; errors name the expected values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core.short_repr import short_repr
from ..instrumentation.time_ranges import Wanted
from .activities import ProfilerActivity
from .schedule import ProfilerAction

_SCHEDULE = "profiler.schedule(wait=1, warmup=1, active=2)"


def require_callable(name: str, given: object, takes: str, example: str) -> None:
    """Raise TypeError unless `given` is None or callable; `takes` describes its parameters."""
    if given is not None and not callable(given):
        raise TypeError(
            f"profile({name}=...): expected a function of {takes}, such as {example}, got "
            f"{short_repr(given)}"
        )


def require_schedule(given: object) -> None:
    """Raise TypeError for a value that is not a schedule."""
    require_callable("schedule", given, "a step's number", _SCHEDULE)


def action_at(schedule: Callable[[int], ProfilerAction] | None, step: int) -> ProfilerAction:
    """Return the action of a schedule for a step.

    Raises  TypeError for a value that is not an action; ValueError for an action that only
            PyTorch's recorder supports
    """
    action = schedule(step) if schedule is not None else ProfilerAction.RECORD
    if not isinstance(action, ProfilerAction):
        raise TypeError(
            f"profile: the schedule says {short_repr(action)} for step {step}, expected a "
            "ProfilerAction; "
            f"{_SCHEDULE} makes one that says so"
        )
    if action is ProfilerAction.DEVICE_STOPPED:
        raise ValueError(f"the schedule says {action} for step {step}: PyTorch's own")
    return action


def require_ready_handler(given: object) -> None:
    """Raise TypeError unless `given` can be called with a profile."""
    example = "profiler.tensorboard_trace_handler('./log')"
    require_callable("on_trace_ready", given, "the profile", example)


def require_observer(given: object) -> None:
    """Raise TypeError unless `given` has the methods of an execution observer."""
    lacks = [one for one in ("start", "stop", "cleanup") if not callable(getattr(given, one, None))]
    if given is not None and lacks:
        raise TypeError(
            "profile(execution_trace_observer=...): expected an object with start(), stop() and "
            f"cleanup(), got {short_repr(given)}, which has no {lacks[0]}()"
        )


def is_asked_for(name: str, given: object) -> bool:
    """Return the truth value of a flag.

    Raises  TypeError for a value without a truth value, such as an array of several numbers
    """
    try:
        return bool(given)
    except Exception as error:
        raise TypeError(
            f"{name}=...: expected True or False, got {short_repr(given)} ({error})"
        ) from error


def wanted_in_profile(
    *, shapes: object, flops: object, stack: object, memory: object, modules: object, device: bool
) -> Wanted:
    """Return the kinds of values that a profile records, from the profile's flags.

    Raises  TypeError for a flag without a truth value
    """
    return Wanted(
        shapes=is_asked_for("profile(record_shapes)", shapes),
        flops=is_asked_for("profile(with_flops)", flops),
        stack=is_asked_for("profile(with_stack)", stack),
        memory=is_asked_for("profile(profile_memory)", memory),
        modules=is_asked_for("profile(with_modules)", modules),
        device=device,
    )


def listed_activities(given: Any) -> Iterable[ProfilerActivity] | None:
    """Return the given activities, or None if `given` is None.

    Raises  TypeError for a value that is not a collection of activities
    """
    if given is None:
        return None
    if isinstance(given, str | ProfilerActivity) or not hasattr(given, "__iter__"):
        raise TypeError(
            "profile(activities=...): expected a list such as [ProfilerActivity.CPU], got "
            f"{short_repr(given)}"
        )
    for one in (found := list(given)):
        if not isinstance(one, ProfilerActivity):
            raise TypeError(
                f"Expected ProfilerActivity, got {type(one)}: activities are such as "
                "[ProfilerActivity.CPU]"
            )
    return found
