"""The metadata of messages about a pass: each tuple is the metadata of one kind of message."""

from __future__ import annotations

from typing import NamedTuple

from ..rpc.message.metadata_fields import Metadata, filled, refuse

# In a message with gradients, an abort and a question stand the Terms of the pass; in an abort also
# why, and in a question which sends may have no receive, if it is that question.
REASON = "reason"
SENDS = "sends"


class Terms(NamedTuple):
    """The terms that all workers of a pass agree on: its identity, and how it runs."""

    context_id: int
    pass_id: int
    retain_graph: bool = False
    is_auto: bool = False
    create_graph: bool = False
    to_grad: bool = False


class Sends(NamedTuple):
    """The answer to a question of sends: which have none, and whether the pass has begun there."""

    sends: tuple[int, ...]
    begun: bool


class Progress(NamedTuple):
    """How a pass stands at one worker, for its root."""

    running: int
    sent: int
    received: int
    begun: bool
    # Message ids of sends to which no gradient came, and the workers that should send one.
    waiting: tuple[int, ...] = ()
    waits_for: tuple[int, ...] = ()
    # The workers that this worker knows: so the root reaches them all.
    workers: tuple[int, ...] = ()

    @classmethod
    def read(cls, metadata: Metadata, sender: int) -> Progress:
        """Return the progress that an answer reports."""
        found = filled(cls, metadata, sender)
        if len(found.waiting) != len(found.waits_for):
            refuse(metadata, "waits_for", sender, "as many numbers as in 'waiting'")
        return found
