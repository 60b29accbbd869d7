"""How a worker enters a group: all meet, and agree on what they must have in common."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from fastdist.core.errors import (
    RankTakenError,
    RpcError,
    StoreError,
    StoreLostError,
    StoreTimeoutError,
)
from fastdist.distributed.store import PrefixStore, Store

from . import group_log
from .membership import TELL_S, Membership, Record, read_dynamic_members, withdraw

_GROUP_KIND: Final = "group_kind"

_logger = logging.getLogger(__name__)


def join_static(store: Store, me: Record, timeout_s: float) -> Membership:
    """Meet all members of a group with a world size.

    Raises  RpcError, at every member, where two disagree; RankTakenError where two have one rank,
            at every member that waits; StoreTimeoutError naming who is missing
    """
    try:
        _require_kind(store, "static")
        who = f"{me.name!r} (rank {me.rank})"
        encoded = store.join("rpc_members", me.rank, me.encode(), me.world_size, timeout_s, who=who)
        records = [Record.decode(record) for record in encoded]
        _require_agreement(records)
    except RankTakenError as error:
        if not _has_begun(store, me.rank):
            _wait_until_all_know(store, me)
        raise RankTakenError(f"{error}: {_both(error)}", error.claims) from error
    except (StoreTimeoutError, StoreLostError):
        raise  # those who did not come, or a store that is gone, can be told nothing
    except (RpcError, StoreError):
        _wait_until_all_know(store, me)
        raise
    membership = Membership(store, me, records)
    PrefixStore("names", store).set(str(me.rank), me.name)
    PrefixStore("addrs", store).set(me.name, json.dumps(me.addresses))
    return membership


def join_dynamic(store: Store, me: Record) -> Membership:
    """Enter a group without a world size.

    Raises  RpcError if the name or the rank is taken
    """
    _require_kind(store, "dynamic")
    try:
        # See Note [One line enters].
        PrefixStore("members", store).set(str(me.incarnation), me.encode())
        other = group_log.enter(store, group_log.Entry(me.incarnation, me.rank, me.name))
        if other is not None:
            raise RpcError(
                f"RPC worker name {me.name} with rank {me.rank} is not unique: the group has "
                f"{other.name} with rank {other.rank}; give each worker its own name and rank"
            )
        membership = Membership(store, me, [*read_dynamic_members(store), me])
        PrefixStore("names", store).set(str(me.rank), me.name)
        PrefixStore("addrs", store).set(me.name, json.dumps(me.addresses))
    except BaseException:
        try:
            withdraw(store, me)
        except StoreError as error:
            _logger.info("name and rank could not be given back: %s", error)
        raise
    return membership


def _has_begun(store: Store, rank: int) -> bool:
    """Return whether a rank works already, so that nobody waits for the group any more."""
    try:
        return PrefixStore("names", store).check([str(rank)])
    except StoreError:
        return False  # gone with its host, which has heard the same


def _both(taken: RankTakenError) -> str:
    first, second = (Record.decode(claim).whereabouts for claim in taken.claims)
    return f"{first}, came first, and then {second}"


def _wait_until_all_know(store: Store, me: Record) -> None:
    """Let all members hear of a mistake before the one that serves the store ends it."""
    told = PrefixStore("told", store)
    told.set_timeout(TELL_S)
    try:
        told.set(str(me.rank), "")
        told.wait([str(rank) for rank in range(me.world_size)])
    except StoreError as error:
        _logger.info("not all members may have heard of the mistake: %s", error)


def _require_kind(store: Store, kind: str) -> None:
    found = store.compare_set(_GROUP_KIND, "", kind).decode()
    if found != kind:
        raise RpcError(
            "RPC group mixes statically and dynamically initialized members which is not "
            f"supported. The group is {found}, this worker would be {kind}: give all of them the "
            "same world_size, or none of them any"
        )


def _require_agreement(records: list[Record]) -> None:
    first = records[0]
    names: dict[str, Record] = {}
    for record in records:
        other = names.setdefault(record.name, record)
        if other is not record:
            raise RpcError(
                f"RPC worker name {record.name} is not unique: ranks {other.rank} and "
                f"{record.rank} both have it; give each worker its own name: it is that of "
                f"{other.whereabouts}, and of {record.whereabouts}"
            )
        for what in ("wire_version", "version", "security", "world_size"):
            mine: Any = getattr(record, what)
            if mine != getattr(first, what):
                raise RpcError(
                    f"the workers disagree on {what}: {first.name!r} has "
                    f"{getattr(first, what)!r}, {record.name!r} has {mine!r}"
                )
