"""Converts a state dict to leaves, each with its path, and back."""

# Note [Which leaves there are] Dicts are traversed; lists and tuples are traversed only if they
# contain a tensor. Every other value is a leaf and is kept unchanged. For example, an optimiser's
# betas stay a tuple, and an empty dict stays a dict. The path of a leaf distinguishes keys of dicts
# from indices of lists and tuples, so that `rebuilt` can restore the structure. The steps of the
# path, joined by dots, are the leaf's key, by which other workers request the leaf.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ...tensor.tensor import Tensor
from .errors import CheckpointException
from .sharded_tensor import ShardedTensor

# A step is a key of a dict, or a pair: "list" or "tuple", and an index.
Step: TypeAlias = str | int | tuple[str, int]
Path: TypeAlias = tuple[Step, ...]

_SEQUENCES = {"list": list, "tuple": tuple}


def key_of(path: Path) -> str:
    """Return the key of a leaf: its steps, joined by dots."""
    return ".".join(str(step[1] if isinstance(step, tuple) else step) for step in path)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each leaf of a value with its path. See Note [Which leaves there are].

    Raises  TypeError for a tensor in a dict under a key that is neither text nor an int
    """
    if isinstance(value, Mapping) and value:
        if all(isinstance(key, str) or type(key) is int for key in value):
            for key, inner in value.items():
                yield from leaves(inner, (*path, key))
            return
        if _has_tensor(value):
            raise TypeError(
                f"state dict: {key_of(path)!r} holds tensors under the keys {list(value)!r}; keys "
                "must be text or ints"
            )
    if type(value) in (list, tuple) and _has_tensor(value):
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, (type(value).__name__, place)))
        return
    yield path, value


def _has_tensor(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_tensor, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_tensor, value))
    return isinstance(value, Tensor | ShardedTensor)


def rebuilt(found: Mapping[Path, Any]) -> Any:
    """Return the nested dicts, lists and tuples that have these leaves.

    Raises  CheckpointException if no such structure exists, or a list lacks an index
    """
    if set(found) == {()}:
        return found[()]
    by_step: dict[Step, dict[Path, Any]] = {}
    for path, value in found.items():
        if not path:
            raise CheckpointException("a checkpoint has a leaf where another has a dict")
        by_step.setdefault(path[0], {})[path[1:]] = value
    made = {step: rebuilt(inner) for step, inner in by_step.items()}
    kinds = {step[0] if isinstance(step, tuple) else "dict" for step in made}
    if kinds == {"dict"}:
        return made
    kind = kinds.pop()
    places = sorted(step[1] for step in made if isinstance(step, tuple))
    if kinds or kind not in _SEQUENCES or places != list(range(len(made))):
        raise CheckpointException(f"a checkpoint has a list whose places are {list(made)}")
    return _SEQUENCES[kind](made[kind, place] for place in places)
