"""The answer of an owner who was asked which of its contexts, or levels, are over."""

from __future__ import annotations

import logging

from ...core.errors import MessageError
from ..rpc.handlers import Reply
from ..rpc.message.words import numbers

_logger = logging.getLogger(__name__)


def read_over(reply: Reply, owner: int, what: str) -> tuple[int, ...]:
    """Return the ids of those that are over; none, and a warning, for an answer of another form."""
    try:
        return numbers(reply.metadata, "over", owner)
    except MessageError as error:
        _logger.warning("what worker %d says of its %s is not read: %s", owner, what, error)
        return ()
