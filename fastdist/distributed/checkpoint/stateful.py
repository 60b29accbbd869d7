"""Stateful: the protocol of objects with state_dict and load_state_dict."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Stateful(Protocol):
    """An object that can return its state and load it again."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state: tensors, numbers, text, and dicts, lists and tuples of these."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that state_dict has returned."""
