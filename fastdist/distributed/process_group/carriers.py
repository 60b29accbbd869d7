"""Optional interfaces of objects that carry collectives, in addition to Transport."""

# Note [Abilities of a carrier]
# A Transport blocks until its part of a collective is done, and takes arrays in CPU memory. A
# carrier with further abilities declares them by its base classes. So a carrier with a misspelt
# method cannot be created, and an attribute that happens to have the right name is not an ability:
#   QueueingCarrier   queues collectives and messages, and returns their Work
#   ClosesQuietly     ends its own waits when it closes (in transport.py, which links/ imports)
#   GroupingTransport starts several collectives together, and declares the memory of its arrays
# The objects that registered backends return declare nothing: foreign.py looks up their methods.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...core.device import Device
    from ...tensor.tensor import Tensor
    from .transport import Call
    from .work import Work


class Message(NamedTuple):
    """One send or receive in a batch."""

    is_send: bool
    tensor: Tensor
    # The peer's rank in the group.
    peer: int


class QueueingCarrier(ABC):
    """Queues collectives and messages on a device, and returns their Work.

    Thread  any
    """

    # The number of collectives that this member has called.
    count: int

    @abstractmethod
    def start(
        self,
        call: Call,
        act: Callable[[Any, Call], None],
        result: list[Any],
        device: Device | None,
        *,
        is_async: bool,
    ) -> Work:
        """Queue a collective; `act` runs it on a GroupingTransport.

        `device` is where a collective without tensors runs.
        """

    @abstractmethod
    def start_message(self, call: Call, message: Message, *, is_async: bool) -> Work:
        """Queue a send or a receive."""

    @abstractmethod
    def start_batch(self, call: Call, messages: Sequence[Message]) -> Work:
        """Queue sends and receives that start together, with one Work."""

    @abstractmethod
    def connect(self, device: Device, seconds: float) -> None:
        """Connect a device before its first collective."""

    @abstractmethod
    def abort(self, error: Exception) -> None:
        """Fail all work under way with the error, and raise it in every later call."""

    @abstractmethod
    def close(self) -> None:
        """Wait for the work under way, and release the group's resources."""


class GroupingTransport(ABC):
    """A Transport whose arrays are in `memory`, and whose calls can start together."""

    # A Memory, as defined in memory.py.
    memory: Any

    @abstractmethod
    def grouped(self) -> AbstractContextManager[None]:
        """Return a context manager; the calls in its block start together, at the block's end."""
