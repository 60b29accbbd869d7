"""The content and the answers of a store, without threads, sockets, files or clocks."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ClassVar

from fastdist.core.errors import StoreError

from .membership import Group, Member, disagreement, name_missing, other_size, show
from .mistakes import Mistakes
from .requests import (
    MAX_MEMBERS,
    MAX_VALUE_BYTES,
    NUM_OF_JOIN,
    Answer,
    Op,
    Request,
    Status,
    awaited,
    number,
    require_arguments,
    require_fits,
    words,
)


class StoreState:
    """The dictionary, and the requests that wait for keys or ranks that do not exist yet.

    Each call returns the answers that are due, in order. The same requests in the same order give
    the same state everywhere, so FileStore can replay a log.

    Thread  one at a time; the caller locks
    """

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        # Invariant: no queue is empty.
        self._queues: dict[bytes, deque[bytes]] = {}
        self._groups: dict[bytes, Group] = {}
        # Workers whose process has ended, each as a tuple (rank, world size of the job).
        self._ended: set[tuple[int, int]] = set()
        # Waiting requests, listed under each of their keys, even under keys that exist: these may
        # be deleted before the last key arrives. Invariant: no answered request is listed.
        self._parked: dict[bytes, list[Request]] = {}
        self._watches: dict[Hashable, bytes] = {}
        self._deadlines: list[tuple[float, int, Request]] = []
        self._numbers = itertools.count()
        self._mistakes = Mistakes()

    def expect(self, name: bytes, world_size: int) -> None:
        """Set the world size that all members of a group must have: that of the group's host."""
        self._groups[name] = Group(world_size)

    def submit(self, request: Request, now: float) -> list[Answer]:
        """Execute a request, or park it until it can be executed; return errors as answers."""
        return self._attempt(self._handlers[request.op], request, now)

    def expire(self, now: float) -> list[Answer]:
        """Answer the requests that have timed out, with the keys that are still missing."""
        answers: list[Answer] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            request = heapq.heappop(self._deadlines)[2]
            if not request.is_answered:
                answers += self._attempt(StoreState._time_out, request, now)
        return answers

    def farewell(self) -> list[Answer]:
        """Answer all waiting joins with the missing members, before the store ends."""
        waiting = [request for group in self._groups.values() for request in group.parked]
        return [a for one in waiting for a in self._answer(one, Status.ENDED, self._missing(one))]

    def next_deadline(self) -> float | None:
        """Return when to call `expire` next; None if no request waits."""
        while self._deadlines and self._deadlines[0][2].is_answered:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def unwatch(self, owners: Iterable[Hashable]) -> None:
        """End the watches of owners that are gone."""
        for owner in owners:
            self._watches.pop(owner, None)

    def watchers(self) -> list[Hashable]:
        """Return the owners of watches."""
        return list(self._watches)

    def _attempt(self, step: _Step, request: Request, now: float) -> list[Answer]:
        try:
            require_arguments(request)
            return step(self, request, now)
        except StoreError as error:
            return self._refuse(request, str(error))
        except Exception as error:
            # An internal error must only affect this request, as the whole job uses the store.
            self._unpark(request)
            told = self._mistakes.note(request.op.name.lower(), error)
            return self._refuse(request, told)

    def _time_out(self, request: Request, now: float) -> list[Answer]:
        answers = self._answer(request, Status.TIMED_OUT, self._missing(request))
        self._unpark(request)
        return answers

    def _set(self, request: Request, now: float) -> list[Answer]:
        keys, values = request.arguments[::2], request.arguments[1::2]
        if len(keys) != len(values):
            raise StoreError(f"set: {len(keys)} keys and {len(values)} values")
        for key, value in zip(keys, values):
            require_fits(key, value)
        answers = self._answer(request, Status.OK, [])
        self._values.update(zip(keys, values))
        return answers + self._changed(keys, now)

    def _get(self, request: Request, now: float) -> list[Answer]:
        keys = request.arguments
        if not self._is_there(request):
            return self._park(request, now)
        found = [self._values[key] for key in keys] if request.op is Op.GET else []
        return self._answer(request, Status.OK, found)

    def _check(self, request: Request, now: float) -> list[Answer]:
        found = self._is_there(request)
        return self._answer(request, Status.OK, [b"1" if found else b"0"])

    def _push(self, request: Request, now: float) -> list[Answer]:
        key, value = request.arguments
        require_fits(key, value)
        self._queues.setdefault(key, deque()).append(value)
        return self._answer(request, Status.OK, []) + self._wake(key, now)

    def _pop(self, request: Request, now: float) -> list[Answer]:
        key, waits = request.arguments
        queue = self._queues.get(key)
        if queue is None:
            if waits == b"1":
                return self._park(request, now)
            return self._answer(request, Status.OK, [])
        value = queue.popleft()
        if not queue:
            del self._queues[key]
        return self._answer(request, Status.OK, [value])

    def has_queue(self, key: bytes) -> bool:
        """Return whether the queue under key has a value."""
        return key in self._queues

    def _queue_length(self, request: Request, now: float) -> list[Answer]:
        (key,) = request.arguments
        return self._answer(request, Status.OK, [str(len(self._queues.get(key, ()))).encode()])

    def _list_keys(self, request: Request, now: float) -> list[Answer]:
        (prefix,) = request.arguments
        return self._answer(
            request, Status.OK, [key for key in self._values if key.startswith(prefix)]
        )

    def _add(self, request: Request, now: float) -> list[Answer]:
        key, amount = request.arguments
        held = self._values.get(key, b"0")
        try:
            total = int(held) + int(amount)
        except ValueError:
            raise StoreError(f"add: {show(key)} holds {held[:40]!r}, not a number") from None
        self._keep(key, str(total).encode())
        answers = self._answer(request, Status.OK, [self._values[key]])
        return answers + self._changed([key], now)

    def _compare_set(self, request: Request, now: float) -> list[Answer]:
        key, expected, desired = request.arguments
        held = self._values.get(key)
        # PyTorch's rule for an absent key: set it if b"" is expected, else return `expected`.
        if held == expected or (held is None and not expected):
            self._keep(key, desired)
            return self._answer(request, Status.OK, [desired]) + self._changed([key], now)
        return self._answer(request, Status.OK, [expected if held is None else held])

    def _delete(self, request: Request, now: float) -> list[Answer]:
        (key,) = request.arguments
        was_there = self._values.pop(key, None) is not None
        answers = self._answer(request, Status.OK, [b"1" if was_there else b"0"])
        return answers + (self._changed([key], now) if was_there else [])

    def _num_keys(self, request: Request, now: float) -> list[Answer]:
        return self._answer(request, Status.OK, [str(len(self._values)).encode()])

    def _append(self, request: Request, now: float) -> list[Answer]:
        key, value = request.arguments
        held = self._values.get(key, b"")
        if len(held) + len(value) > MAX_VALUE_BYTES:
            raise StoreError(
                f"append: {show(key)} holds {len(held)} bytes, and {len(value)} more exceed the "
                f"{MAX_VALUE_BYTES} of a value"
            )
        self._keep(key, held + value)
        return self._answer(request, Status.OK, []) + self._changed([key], now)

    def _join(self, request: Request, now: float) -> list[Answer]:
        if len(request.arguments) not in NUM_OF_JOIN:
            raise StoreError(f"join: {len(request.arguments)} arguments, expected 4 or 10")
        name, rank_text, world_text, value, *more = request.arguments
        rank, world_size = number(rank_text), number(world_text)
        _require_place(name, rank, world_size)
        require_fits(name, value)
        group = self._groups.setdefault(name, Group(world_size))
        if rank == -1:
            # A request for any free place: if it is refused, the group does not fail.
            rank = self._free_place(name, group, world_size)
        life, called, labels, agreement, _, may_follow = more or [b""] * 6
        member = Member(rank, value, life, called, words(labels))
        there = group.members.get(rank)
        is_later = may_follow == b"1" and (there is None or there.life != life)
        if group.has_met or (group.is_complete() and is_later):
            return self._answer(request, Status.OK, [])
        fault, claims = disagreement(name, group, member, world_size, agreement)
        if fault and group.is_complete():
            # The group is complete: the error of a late member must not affect it.
            return self._refuse(request, fault, claims)
        if not group.error:
            group.error, group.claims = fault, claims
        if not group.error:
            group.agreement = agreement if group.agreement is None else group.agreement
            group.put(member)
            group.error = self._hopeless(name, group)
        if group.error:
            # All members get the error: the waiting members, this member, and later members.
            return [
                *self._refuse_parked(group),
                *self._refuse(request, group.error, group.claims),
            ]
        if not group.is_complete():
            if request.owner is not None and request.deadline > now:
                group.parked.append(request)
            return self._set_deadline(request, now)
        return self._answer_joined(group, [*group.parked, request])

    def _answer_joined(self, group: Group, told: list[Request]) -> list[Answer]:
        group.parked = []
        values: list[bytes] = []
        answers: list[Answer] = []
        for request in told:
            wanted = request.arguments[8:9]
            if not wanted:
                values = values or [group.members[rank].value for rank in range(group.world_size)]
            found = [group.find(key) for key in words(wanted[0])] if wanted else values
            answers += self._answer(request, Status.OK, [] if group.has_met else found)
        return answers

    def _enter(self, request: Request, now: float) -> list[Answer]:
        name, rank, world_size, value, life, called, labels, over, num_lost = request.arguments
        member = Member(number(rank), value, life, called, words(labels))
        require_fits(name, value)
        if not 0 <= member.rank < (number(world_size) or MAX_MEMBERS) or not life or not called:
            raise StoreError(f"enter {show(name)}: rank {member.rank} cannot be entered")
        group = self._groups.get(name)
        if group is None or not (group.is_complete() or group.world_size == 0):
            # A static group whose members have met before, in a store on another host.
            waiting = [] if group is None else group.parked
            group = self._groups[name] = Group(number(world_size))
            group.has_met = group.world_size > 0
            answers = self._answer_joined(group, waiting)
        else:
            answers = []
        place = (member.rank, called)
        if over:
            group.end(over, place, was_lost=True, num_lost=number(num_lost))
        other = group.conflict(member)
        if other is None:
            group.put(member)
        last = group.last_at(*place)
        lost = b"%d" % (last.num_lost if last else 0)
        found = [b"" if other is None else other.value, lost]
        return [*answers, *self._answer(request, Status.OK, found)]

    def _leave(self, request: Request, now: float) -> list[Answer]:
        name, life, was_lost, num_lost, rank, called = request.arguments
        group = self._groups.setdefault(name, Group(0))
        place = (number(rank), called)
        group.end(life, place, was_lost=was_lost == b"1", num_lost=number(num_lost))
        return self._answer(request, Status.OK, [])

    def _members(self, request: Request, now: float) -> list[Answer]:
        group = self._groups.get(request.arguments[0]) or Group(0)
        return self._answer(request, Status.OK, [group.find(key) for key in request.arguments[1:]])

    def _list_changes(self, request: Request, now: float) -> list[Answer]:
        name, revision = request.arguments
        group = self._groups.get(name) or Group(0)
        return self._answer(request, Status.OK, group.changes_since(number(revision)))

    def _last_at(self, request: Request, now: float) -> list[Answer]:
        name, rank_text, called = request.arguments
        rank, group = number(rank_text), self._groups.get(name) or Group(0)
        member, last = group.members.get(rank), group.last_at(rank, called)
        how = b"" if last is None else b"lost" if last.was_lost else b"left"
        is_in = member is not None and member.name == called
        lost = b"%d" % (last.num_lost if last else 0)
        return self._answer(request, Status.OK, [b"in" if is_in else how, lost])

    def _free_place(self, name: bytes, group: Group, world_size: int) -> int:
        """Return the lowest free rank.

        Raises  StoreError if the world sizes differ, or all places are taken
        """
        why = other_size(name, group, "a member", world_size)
        if not why and not group.is_complete():
            return group.free_rank()
        why = why or f"join {show(name)}: all {world_size} places are taken"
        self._mistakes.warn_once("no place", f"{why}; one that tried to join was refused")
        raise StoreError(why)

    def _withdraw(self, request: Request, now: float) -> list[Answer]:
        name, rank_text, world_text = request.arguments
        rank, world_size = number(rank_text), number(world_text)
        answers = self._answer(request, Status.OK, [])
        group = self._groups.get(name)
        if group is None or group.world_size != world_size or group.is_complete():
            return answers
        group.withdraw(rank)
        former = [one for one in group.parked if number(one.arguments[1]) == rank]
        group.parked = [one for one in group.parked if one not in former]
        why = f"join {show(name)}: rank {rank} has withdrawn, and may join again"
        return answers + [a for one in former for a in self._refuse(one, why)]

    def _disband(self, request: Request, now: float) -> list[Answer]:
        (name,) = request.arguments
        group = self._groups.get(name)
        if group is not None and group.is_complete():
            del self._groups[name]
        return self._answer(request, Status.OK, [])

    def _take_end(self, request: Request, now: float) -> list[Answer]:
        rank, world_size = map(number, request.arguments)
        if not 0 <= rank < world_size <= MAX_MEMBERS:
            raise StoreError(f"ended: rank {rank} of {world_size} does not exist")
        self._ended.add((rank, world_size))
        answers = self._answer(request, Status.OK, [])
        for name, group in self._groups.items():
            group.error = group.error or self._hopeless(name, group)
            if group.error:
                answers += self._refuse_parked(group)
        return answers

    def _begin_round(self, request: Request, now: float) -> list[Answer]:
        self._ended.clear()
        return self._answer(request, Status.OK, [])

    def _hopeless(self, name: bytes, group: Group) -> str:
        """Return why a group can never be complete; empty if it may still become complete."""
        ended = sorted(
            rank
            for rank, world_size in self._ended
            if world_size == group.world_size and rank not in group.members
        )
        if not ended:
            return ""
        return (
            f"join {show(name)}: rank {', '.join(map(str, ended))} of {group.world_size} ended "
            "without joining; let every worker of the job join, or give a world size that counts "
            "only those"
        )

    def _refuse_parked(self, group: Group) -> list[Answer]:
        told, group.parked = group.parked, []
        return [a for one in told for a in self._refuse(one, group.error, group.claims)]

    def _refuse(self, request: Request, why: str, claims: Sequence[bytes] = ()) -> list[Answer]:
        told = why.encode(errors="backslashreplace")
        return self._answer(request, Status.REFUSED, [told, *claims])

    def _watch(self, request: Request, now: float) -> list[Answer]:
        (prefix,) = request.arguments
        answers = self._answer(request, Status.OK, [])
        self._watches[request.owner] = prefix
        for key, value in self._values.items():
            if key.startswith(prefix):
                answers.append(Answer(request.owner, Status.CHANGED, [key, b"1", value]))
        return answers

    _handlers: ClassVar[dict[Op, _Step]] = {
        Op.SET: _set,
        Op.GET: _get,
        Op.WAIT: _get,
        Op.CHECK: _check,
        Op.ADD: _add,
        Op.COMPARE_SET: _compare_set,
        Op.DELETE: _delete,
        Op.NUM_KEYS: _num_keys,
        Op.APPEND: _append,
        Op.JOIN: _join,
        Op.WATCH: _watch,
        Op.ENDED: _take_end,
        Op.ROUND: _begin_round,
        Op.WITHDRAW: _withdraw,
        Op.PUSH: _push,
        Op.POP: _pop,
        Op.QUEUE_LENGTH: _queue_length,
        Op.KEYS: _list_keys,
        Op.DISBAND: _disband,
        Op.ENTER: _enter,
        Op.LEAVE: _leave,
        Op.MEMBERS: _members,
        Op.CHANGES: _list_changes,
        Op.LAST_AT: _last_at,
    }

    def _park(self, request: Request, now: float) -> list[Answer]:
        if request.owner is not None and request.deadline > now:
            for key in dict.fromkeys(awaited(request)):
                self._parked.setdefault(key, []).append(request)
        return self._set_deadline(request, now)

    def _unpark(self, request: Request) -> None:
        if request.op is Op.JOIN:
            group = self._groups.get(b"".join(request.arguments[:1]))
            if group is not None:
                group.parked = [other for other in group.parked if other is not request]
            return
        for key in awaited(request):
            waiting = [other for other in self._parked.pop(key, ()) if other is not request]
            if waiting:
                self._parked[key] = waiting

    def _set_deadline(self, request: Request, now: float) -> list[Answer]:
        if request.owner is None:
            return []
        if request.deadline <= now:
            return self._answer(request, Status.TIMED_OUT, self._missing(request))
        heapq.heappush(self._deadlines, (request.deadline, next(self._numbers), request))
        return []

    def _changed(self, keys: list[bytes], now: float) -> list[Answer]:
        """Answer the requests that waited for keys, and notify the watchers of these keys."""
        answers: list[Answer] = []
        for key in keys:
            value = self._values.get(key)
            for owner, prefix in self._watches.items():
                if key.startswith(prefix):
                    frames = [key, b"0" if value is None else b"1", value or b""]
                    answers.append(Answer(owner, Status.CHANGED, frames))
            if value is None:
                continue
            answers += self._wake(key, now)
        return answers

    def _wake(self, key: bytes, now: float) -> list[Answer]:
        """Execute each request that waited for `key` and whose other keys exist too."""
        if all(request.op in (Op.GET, Op.WAIT) for request in self._parked.get(key, ())):
            return self._wake_readers(key, now)
        answers: list[Answer] = []
        for request in self._parked.get(key, [])[:]:
            if self._is_there(request):
                self._unpark(request)
                answers += self.submit(request, now)
        return answers

    def _wake_readers(self, key: bytes, now: float) -> list[Answer]:
        """Do the work of `_wake` for GET and WAIT in one pass: many members may wait for a key."""
        ready: list[Request] = []
        waiting: list[Request] = []
        for request in self._parked.pop(key, ()):
            (ready if self._is_there(request) else waiting).append(request)
        if waiting:
            self._parked[key] = waiting
        answers: list[Answer] = []
        for request in ready:
            if len(request.arguments) > 1:
                self._unpark(request)
            answers += self.submit(request, now)
        return answers

    def _is_there(self, request: Request) -> bool:
        """Return whether all keys of a request exist: as values for GET, as a queue for POP."""
        if request.op is Op.GET:
            return all(key in self._values for key in request.arguments)
        if request.op is Op.POP:
            return request.arguments[0] in self._queues
        return all(key in self._values or key in self._queues for key in request.arguments)

    def _missing(self, request: Request) -> list[bytes]:
        if request.op is Op.JOIN:
            group = self._groups[request.arguments[0]]
            return name_missing(group, is_brief=len(request.arguments) > NUM_OF_JOIN[0])
        return [
            key
            for key in awaited(request)
            if key not in self._values and (request.op is Op.GET or key not in self._queues)
        ]

    def _keep(self, key: bytes, value: bytes) -> None:
        require_fits(key, value)
        self._values[key] = value

    def _answer(self, request: Request, status: Status, frames: list[bytes]) -> list[Answer]:
        request.is_answered = True
        return [] if request.owner is None else [Answer(request.owner, status, frames)]


# A function that executes one request.
_Step = Callable[[StoreState, Request, float], list[Answer]]


def _require_place(name: bytes, rank: int, world_size: int) -> None:
    if not 1 <= world_size <= MAX_MEMBERS or not -1 <= rank < world_size:
        raise StoreError(
            f"join {show(name)}: rank {rank} of {world_size} does not exist; a group has 1 to "
            f"{MAX_MEMBERS} members"
        )
