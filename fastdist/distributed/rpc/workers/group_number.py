"""Which group of its job a worker comes to: a process may leave one, and join the next."""

# Each group of a process has keys of its own in the store, with the number that counts them. Who
# was killed and is started again counts from 0, though its job may be in a later one. So the groups
# that take lives back note in the store which has begun last, and the first group of a process is
# that: where all meet anew each time, the others are there, or come. In groups without a world size
# each goes its own way. There it is the last one that a former life was in, and did not leave.

from __future__ import annotations

from typing import Final

from fastdist.core.errors import RpcError
from fastdist.distributed.store import PrefixStore, Store

from . import group_log

# Which is the newest, in keys of their own: see note_again.
_ALL: Final = "rpc_groups"
_NEWEST: Final = "newest"
_PREFIX: Final = "rpc_prefix_"


def keys_of_group(store: Store, number: int) -> PrefixStore:
    """Return what a store holds of the group with a number."""
    return PrefixStore(f"{_PREFIX}{number}", store)


def find_number(store: Store, count: int, rank: int, name: str, *, is_static: bool) -> int:
    """Return the number of the group to come to, of those that take lives back; note it.

    `count` is how many groups this process has been in.

    Raises  StoreError; RpcError for what none of ours wrote
    """
    newest = _note(PrefixStore(_ALL, store), count)
    if count > 0:
        return count
    return newest if is_static else _last_of_former_life(store, newest, rank, name)


def note_again(keys: PrefixStore) -> None:
    """Note a group by its keys, in a store that has another host and may know nothing of it.

    Raises  StoreError once it has waited as long as `keys` does; RpcError for what none of ours
            wrote
    """
    groups = PrefixStore(_ALL, keys.underlying_store)
    groups.set_timeout(keys.timeout)
    _note(groups, int(keys.prefix.removeprefix(_PREFIX)))


def _note(groups: PrefixStore, number: int) -> int:
    """Let a number be noted, or a higher one; return what is."""
    newest = _read(groups.compare_set(_NEWEST, "", str(number)))
    while newest < number:
        newest = _read(groups.compare_set(_NEWEST, str(newest), str(number)))
    return newest


def _last_of_former_life(store: Store, newest: int, rank: int, name: str) -> int:
    for number in range(newest, 0, -1):
        if group_log.was_cut_short(keys_of_group(store, number), rank, name):
            return number
    return 0


def _read(told: bytes) -> int:
    if not told.isdigit():
        raise RpcError(f"the store holds no number of a group but {told[:80]!r}")
    return int(told)
