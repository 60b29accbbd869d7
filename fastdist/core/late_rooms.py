"""Rooms to be imported when RPC starts, registered by the room above that may import them."""

# Another worker may ask this one for its part of a backward pass though nobody here has imported
# distributed autograd. RPC must therefore bring it along, and may not know it: so the package that
# joins the rooms says here how to load it, and RPC calls what it finds.

from __future__ import annotations

from collections.abc import Callable

_loaders: list[Callable[[], object]] = []


def load_when_rpc_starts(load: Callable[[], object]) -> None:
    """Call load() each time before this process joins an RPC group."""
    _loaders.append(load)


def load_late_rooms() -> None:
    """Load all that was registered; what is loaded already costs a look-up."""
    for load in _loaders:
        load()
