"""Requests to a user-defined store, which are executed by calls of its methods."""

from __future__ import annotations

from datetime import timedelta

from .answers import Timeout, seconds
from .requests import Op
from .store import Store


def ask_by_methods(store: Store, op: Op, arguments: list[bytes], timeout: Timeout) -> list[bytes]:
    """Return the result of a request, by calling the methods of a user-defined store.

    Raises  NotImplementedError if the store does not implement the method for `op`

    Args:
        store: A subclass of Store that overrides its methods.
        op: The request.
        arguments: Keys and values, as for Store._ask.
        timeout: The longest wait.
    """
    if op is Op.WAIT:
        store.wait([key.decode() for key in arguments], timedelta(seconds=seconds(timeout)))
        return []
    if op is Op.CHECK:
        return [b"1" if store.check([key.decode() for key in arguments]) else b"0"]
    if op is Op.GET:
        keys = [key.decode() for key in arguments]
        is_one = len(keys) == 1 or not store.has_extended_api()
        return [store.get(key) for key in keys] if is_one else store.multi_get(keys)
    if op is Op.SET:
        return _set(store, [key.decode() for key in arguments[::2]], arguments[1::2])
    if op is Op.NUM_KEYS:
        return [str(store.num_keys()).encode()]
    key, *values = arguments
    return _of_one_key(store, op, key.decode(), values)


def _set(store: Store, keys: list[str], values: list[bytes]) -> list[bytes]:
    if store.has_extended_api():
        store.multi_set(keys, values)
    else:
        for key, value in zip(keys, values):
            store.set(key, value)
    return []


def _of_one_key(store: Store, op: Op, key: str, values: list[bytes]) -> list[bytes]:
    if op is Op.ADD:
        return [str(store.add(key, int(values[0]))).encode()]
    if op is Op.COMPARE_SET:
        return [store.compare_set(key, values[0], values[1])]
    if op is Op.DELETE:
        return [b"1" if store.delete_key(key) else b"0"]
    if op is Op.APPEND:
        return _append(store, key, values[0])
    if op is Op.PUSH:
        store.queue_push(key, values[0])
        return []
    if op is Op.POP:
        return [store.queue_pop(key, values[0] == b"1")]
    if op is Op.QUEUE_LENGTH:
        return [str(store.queue_len(key)).encode()]
    if op is Op.KEYS:
        return [one.encode() for one in store.list_keys() if one.startswith(key)]
    raise store._lacks(op.name.lower())


def _append(store: Store, key: str, value: bytes) -> list[bytes]:
    if store.has_extended_api():
        store.append(key, value)
        return []
    expected, wanted = b"", value
    # Not one atomic operation: another process may change the value between two calls.
    while (held := store.compare_set(key, expected, wanted)) != wanted:
        expected, wanted = held, held + value
    return []
