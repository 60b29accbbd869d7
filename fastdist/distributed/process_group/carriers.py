"""Abilities that a carrier of collectives may have beyond those of Transport."""

# Note [Abilities of a carrier]
# A Transport blocks until its part is done, and takes arrays of the CPU. A carrier that can do more
# says so by its base class, so a misspelt method is an error where the class is defined, and no
# object has an ability because an attribute happens to have its name:
#   QueueingCarrier   queues collectives and messages, and returns their Work
#   ClosesQuietly     ends its own waits when it closes (in transport.py, which links import)
#   GroupingTransport starts several collectives together, and says which memory its arrays are of
# Objects of registered functions have the methods that their authors gave them: see foreign.py.

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
    """A send or a receive of a batch."""

    is_send: bool
    tensor: Tensor
    # The other's rank in the group.
    peer: int


class QueueingCarrier(ABC):
    """Queues collectives and messages on a device, and returns their Work.

    Thread  any
    """

    # How many collectives this member has called.
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
        """Queue a collective, which `act` makes of a GroupingTransport.

        `device` is where one without tensors runs.
        """

    @abstractmethod
    def start_message(self, call: Call, message: Message, *, is_async: bool) -> Work:
        """Queue a send or a receive."""

    @abstractmethod
    def start_batch(self, call: Call, messages: Sequence[Message]) -> Work:
        """Queue sends and receives that start together."""

    @abstractmethod
    def connect(self, device: Device, seconds: float) -> None:
        """Connect a device before its first collective."""

    @abstractmethod
    def abort(self, error: Exception) -> None:
        """End what is under way with error, and raise it in every later call."""

    @abstractmethod
    def close(self) -> None:
        """Release what the group holds, when its work is done."""


class GroupingTransport(ABC):
    """A Transport whose arrays are of `memory`, and whose calls can start together."""

    # A Memory; see memory.py.
    memory: Any

    @abstractmethod
    def grouped(self) -> AbstractContextManager[None]:
        """Start the calls of a block together."""
