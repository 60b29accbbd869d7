"""A view of another store in which all keys begin with a prefix."""

from __future__ import annotations

from fastdist.distributed.sockets import JobSecret

from .answers import Timeout
from .own_methods import ask_by_methods
from .requests import Op
from .store import Change, Store, Watch

# Ops whose arguments are all keys. SET has keys and values in turn, and NUM_KEYS has no arguments;
# in all other ops only the first argument is a key.
_ALL_KEYS = frozenset({Op.GET, Op.WAIT, Op.CHECK})


class PrefixStore(Store):
    """A store whose key `k` is `prefix/k` of `store`; `num_keys` counts all keys of `store`.

    Note    the initial timeout is that of `store`; closing this view closes `store`

    Args:
        prefix: The text before each key.
        store: The store that has the keys.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        if store is None:
            raise ValueError("store argument cannot be None")
        super().__init__(store.timeout)
        self.prefix = prefix
        self.underlying_store = store
        self.ends_with_last_user = store.ends_with_last_user

    def watch(self, prefix: str) -> Watch:
        """Return a watch on all keys of this view that begin with prefix; close it after use."""
        return _PrefixWatch(self, self.underlying_store.watch(f"{self.prefix}/{prefix}"))

    @property
    def _underlying_non_prefix_store(self) -> Store:
        store = self.underlying_store
        return store._underlying_non_prefix_store if isinstance(store, PrefixStore) else store

    def clone(self) -> PrefixStore:
        """Return the same view of a clone of the underlying store."""
        return PrefixStore(self.prefix, self.underlying_store.clone())

    def has_extended_api(self) -> bool:
        """Return whether the underlying store has append, multi_get and multi_set."""
        return self.underlying_store.has_extended_api()

    def list_keys(self) -> list[str]:
        """Return the keys of this view."""
        return [key[len(self.prefix) + 1 :] for key in super().list_keys()]

    def query_host(self, line: str = "") -> list[str]:
        """Query the host of the underlying store."""
        return self.underlying_store.query_host(line)

    @property
    def job_secret(self) -> JobSecret | None:
        """The job secret of the underlying store; None if security is 'none'."""
        return self.underlying_store.job_secret

    def close(self) -> None:
        """Close the underlying store."""
        self.underlying_store.close()

    def _ask(self, op: Op, arguments: list[bytes], timeout: Timeout | None = None) -> list[bytes]:
        head = self.prefix.encode() + b"/"
        if op in _ALL_KEYS:
            arguments = [head + key for key in arguments]
        elif op is Op.SET:
            arguments = [part if index % 2 else head + part for index, part in enumerate(arguments)]
        elif arguments:
            arguments = [head + arguments[0], *arguments[1:]]
        waited = self.timeout if timeout is None else timeout
        if type(self.underlying_store)._ask is Store._ask:
            return ask_by_methods(self.underlying_store, op, arguments, waited)
        return self.underlying_store._ask(op, arguments, waited)

    def _shown(self, key: str) -> tuple[str, str]:
        return self.underlying_store._shown(f"{self.prefix}/{key}")

    def __repr__(self) -> str:
        return f"PrefixStore({self.prefix!r}, {self.underlying_store!r})"


class _PrefixWatch(Watch):
    """A watch that removes the prefix from keys."""

    def __init__(self, store: PrefixStore, below: Watch) -> None:
        self._store = store
        self._below = below

    def next(self, timeout: Timeout | None = None) -> Change | None:
        waited = self._store.timeout if timeout is None else timeout
        change = self._below.next(waited)
        if change is None:
            return None
        return Change(change.key[len(self._store.prefix) + 1 :], change.value)

    def fileno(self) -> int | None:
        return self._below.fileno()

    def close(self) -> None:
        self._below.close()
