"""What tells a distributed pass from one of this process alone."""

from __future__ import annotations

from ...engine.graph_task import GraphTask


class DistGraphTask(GraphTask):
    """One worker's part of a distributed pass."""

    context_id = -1
    pass_id = -1
    # Without whom it began. See Note [Workers that are lost before a pass].
    lost_before: frozenset[int] = frozenset()
