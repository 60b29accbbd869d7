"""Objects that can be saved whole: anything with state_dict and load_state_dict."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Stateful(Protocol):
    """An object that tells its state and goes on from one."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state: tensors, numbers, text, and dicts, lists and tuples of them."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state that state_dict has returned."""
