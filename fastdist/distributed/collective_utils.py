"""Collectives that return the results, or raise the failure, of some members on all members."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from ..core.missing import show_public
from .process_group.objects import all_gather_object, broadcast_object_list
from .process_group.ranks import get_world_size

__all__ = ["SyncPayload", "all_gather", "all_gather_object_enforce_type", "broadcast"]

T = TypeVar("T")


@dataclass
class SyncPayload(Generic[T]):
    """A member's message: the name of the stage, and the member's value or exception."""

    stage_name: str | None
    success: bool
    payload: T
    exception: Exception | None = None


def _run(
    data_or_fn: T | Callable[[], T], stage_name: str | None, success: bool
) -> SyncPayload[T | None]:
    if not callable(data_or_fn):
        return SyncPayload(stage_name, success, data_or_fn)
    try:
        return SyncPayload(stage_name, success, data_or_fn())
    except Exception as error:
        return SyncPayload(stage_name, False, None, error)


def broadcast(
    data_or_fn: T | Callable[[], T],
    *,
    success: bool = True,
    stage_name: str | None = None,
    rank: int = 0,
    pg: Any = None,
) -> T:
    """Return one member's value, or the result of its function, on all members.

    Raises  RuntimeError on all members, if the source member failed; AssertionError if `data_or_fn`
            is given although `success` is False

    Args:
        data_or_fn: The value, or a function without arguments that only the source member calls.
        success: False if the source member has failed before; `data_or_fn` must then be None.
        stage_name: A name for error messages.
        rank: The global rank of the source member.
        pg: The group; if None nothing is sent, and this process counts as rank 0.
    """
    if not success and data_or_fn is not None:
        raise AssertionError("Data or Function is expected to be None if not successful")
    is_source = rank == 0 if pg is None else pg._ranks[pg.rank()] == rank
    found: Any = SyncPayload(stage_name, success, None)
    if is_source:
        found = _run(data_or_fn, stage_name, success)
    if pg is not None:
        sent = [found]
        broadcast_object_list(sent, src=rank, group=pg)
        (found,) = sent
    if not found.success:
        stage = "" if stage_name is None else f": stage {found.stage_name}"
        why = "" if found.exception is None else f": exception {found.exception}"
        raise RuntimeError(f"Rank {rank} failed{stage}{why}") from found.exception
    return cast(T, found.payload)


def all_gather(
    data_or_fn: T | Callable[[], T], stage_name: str | None = None, pg: Any = None
) -> list[T]:
    """Return the values of all members, or the results of their functions, ordered by rank.

    Raises  RuntimeError on all members, if a function failed, or a member is at another stage (its
            arguments are a text and the list of (rank, exception))

    Args:
        data_or_fn: This member's value, or a function without arguments.
        stage_name: A name for the stage, the same on all members.
        pg: The group; if None the list contains only this member's value.
    """
    mine = _run(data_or_fn, stage_name, True)
    if pg is None:
        if not mine.success:
            raise RuntimeError(
                f"all_gather failed with exception {mine.exception}"
            ) from mine.exception
        return [cast(T, mine.payload)]
    found: list[Any] = [None] * get_world_size(pg)
    all_gather_object_enforce_type(pg, found, mine)
    errors = [(rank, one.exception) for rank, one in enumerate(found) if one.exception is not None]
    elsewhere = "".join(
        f"Unexpected stage name received from rank {rank}: {one.stage_name} "
        for rank, one in enumerate(found)
        if one.stage_name != found[0].stage_name
    )
    if errors or elsewhere:
        raise RuntimeError(elsewhere, errors) from (errors[0][1] if errors else None)
    return [one.payload for one in found]


def _is_same_type(first: Any, other: Any) -> bool:
    return type(first) is type(other)


def all_gather_object_enforce_type(
    pg: Any,
    object_list: list[Any],
    obj: Any,
    type_checker: Callable[[Any, Any], bool] | None = None,
) -> None:
    """Fill a list with the objects of all members, which must be of one type.

    Raises  TypeError if type_checker returned False for an object

    Args:
        pg: The group.
        object_list: Receives the objects; its length is the size of the group.
        obj: This member's object.
        type_checker: Called with the first object and each other object; the result False is an
            error. If it is None, the types must be equal.
    """
    all_gather_object(object_list, obj, group=pg)
    for index, other in enumerate(object_list[1:], 1):
        if not (type_checker or _is_same_type)(object_list[0], other):
            raise TypeError(
                f"Object type at index {index} is {type(other)}, while first object type is "
                f"{type(object_list[0])}"
            )


def _summarize_ranks(ranks: Iterable[int]) -> str:
    """Return ranks as a list of slices, such as "0:4,8:16:2,20"; a slice excludes its end."""
    left = sorted(ranks)
    if left[0] < 0 or len(set(left)) != len(left):
        raise AssertionError("ranks are positive, and each is there once")
    shown = []
    while left:
        count, step = 1, left[1] - left[0] if len(left) > 1 else 1
        while count < len(left) and left[count] == left[0] + count * step:
            count += 1
        stop = left[0] + count * step
        shown.append(f"{left[0]}" if count == 1 else f"{left[0]}:{stop}" + f":{step}" * (step != 1))
        left = left[count:]
    return ",".join(shown)


show_public(__name__)
