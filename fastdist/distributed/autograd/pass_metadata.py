"""The metadata of messages about a pass: one tuple class for each kind of message."""

from __future__ import annotations

from typing import NamedTuple

from ..rpc.message.metadata_fields import Metadata, filled, refuse

# A message with gradients, an abort and a query contain the Terms of the pass. An abort contains
# REASON too. A query for missing receives contains SENDS, the message ids in doubt.
REASON = "reason"
SENDS = "sends"


class Terms(NamedTuple):
    """The terms that all workers of a pass share: its identity, and how it runs."""

    context_id: int
    pass_id: int
    retain_graph: bool = False
    is_auto: bool = False
    create_graph: bool = False
    to_grad: bool = False


class Sends(NamedTuple):
    """The answer to a query for missing receives: the message ids that have no receive, and whether
    the pass has begun.
    """

    sends: tuple[int, ...]
    begun: bool


class Progress(NamedTuple):
    """The progress of a pass at one worker, reported to its root."""

    running: int
    sent: int
    received: int
    begun: bool
    # Message ids of sends that wait for gradients, and the ranks that should send them.
    waiting: tuple[int, ...] = ()
    waits_for: tuple[int, ...] = ()
    # The ranks that this worker knows, so that the root can reach all workers.
    workers: tuple[int, ...] = ()

    @classmethod
    def read(cls, metadata: Metadata, sender: int) -> Progress:
        """Return the progress that an answer reports."""
        found = filled(cls, metadata, sender)
        if len(found.waiting) != len(found.waits_for):
            refuse(metadata, "waits_for", sender, "as many numbers as in 'waiting'")
        return found
