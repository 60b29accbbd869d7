"""What tells a distributed pass from one of this process alone."""

from __future__ import annotations

from typing import Any

from ...engine.graph_task import GraphTask


class DistGraphTask(GraphTask):
    """One worker's part of a distributed pass."""

    context_id = -1
    pass_id = -1

    def __init__(self, **what: Any) -> None:
        super().__init__(**what)
        # Without whom it began. See Note [Workers that are lost before a pass].
        self.lost_before: set[int] = set()
