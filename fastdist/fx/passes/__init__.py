"""Passes over graphs: shape_prop; passes that split a graph are not supported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.refused import offer_refused

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    offer_refused(globals())
