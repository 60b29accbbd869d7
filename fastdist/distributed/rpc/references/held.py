"""One reference to a value of another worker, from its beginning to its end."""

# Note [What a holder owes]
# A reference begins in one of three ways. Its holder calls rpc.remote(). Or it arrives in a message
# of the owner, or of a sender that notifies the owner. Or it arrives in a message of another
# sender, which does not notify the owner. In the last case the sender keeps its own reference until
# the owner counts the new one, and must then be notified (ACCEPT). The owner must be notified of a
# reference's end (END), but only after it was notified of the reference's beginning.
#
#              KNOWN                        KNOWN: ACCEPT
#   CREATING ---------> COUNTED <---------------------------- TELLING
#      |                  |  DROPPED, GIVEN_UP: END              ^  |
#      | UNSENT           v                                      |  |
#      +---------------> ENDED <------ ARRIVED --- TELLS: TELL --+  |
#                          ^   DROPPED: ACCEPT                      |
#                          +---------------- GIVEN_UP --------------+
#
# If a reference is dropped while the owner is being notified of its beginning, the reference ends
# after the owner's answer.

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fastdist.concurrency.future import Future

    from ..workers.worker import Worker

# The parent of a reference whose sender needs no notice of its arrival.
NOBODY: Final = -1


class State(Enum):
    """The state of a reference."""

    CREATING = auto()  # the rpc.remote() call that makes the value also registers this reference
    ARRIVED = auto()  # another worker than the owner sent it; the owner will be notified soon
    TELLING = auto()  # the owner is being notified
    COUNTED = auto()  # the owner counts this reference
    ENDED = auto()


class Event(Enum):
    """Events of a reference."""

    TELLS = auto()  # the notice to the owner is about to be sent
    KNOWN = auto()  # the owner has answered, or is dead and will not answer
    UNKNOWN = auto()  # the notice to the owner failed
    UNSENT = auto()  # the call that makes the value was not sent
    DROPPED = auto()  # no RRef object uses this reference any more
    GIVEN_UP = auto()  # this worker shuts down
    REFUSED = auto()  # the sender has taken this reference back


class Do(Enum):
    """Actions of the holder."""

    TELL = auto()  # notify the owner of this reference
    ACCEPT = auto()  # notify the sender that the owner counts this reference, or that it has ended
    END = auto()  # notify the owner of this reference's end


_STEPS: Final[dict[tuple[State, Event], tuple[State, tuple[Do, ...]]]] = {
    (State.CREATING, Event.KNOWN): (State.COUNTED, ()),
    (State.CREATING, Event.UNSENT): (State.ENDED, ()),
    (State.CREATING, Event.DROPPED): (State.CREATING, ()),
    (State.CREATING, Event.GIVEN_UP): (State.ENDED, (Do.END,)),
    (State.ARRIVED, Event.TELLS): (State.TELLING, (Do.TELL,)),
    (State.ARRIVED, Event.DROPPED): (State.ENDED, (Do.ACCEPT,)),
    (State.ARRIVED, Event.GIVEN_UP): (State.ENDED, (Do.ACCEPT,)),
    (State.ARRIVED, Event.REFUSED): (State.ENDED, ()),
    (State.TELLING, Event.KNOWN): (State.COUNTED, (Do.ACCEPT,)),
    # There is no ACCEPT: the owner may not count this reference, so the sender must keep its own
    # reference.
    (State.TELLING, Event.UNKNOWN): (State.COUNTED, ()),
    (State.TELLING, Event.DROPPED): (State.TELLING, ()),
    (State.TELLING, Event.GIVEN_UP): (State.ENDED, (Do.END, Do.ACCEPT)),
    (State.COUNTED, Event.DROPPED): (State.ENDED, (Do.END,)),
    (State.COUNTED, Event.GIVEN_UP): (State.ENDED, (Do.END,)),
    (State.COUNTED, Event.REFUSED): (State.ENDED, ()),
}


class HeldReference:
    """The holder's side of one RRef.

    `parent` is the rank of the worker that sent the reference; NOBODY if that worker needs no
    notice. `maker` is the incarnation of the worker whose remote call makes the value. It is 0 if
    the owner knows the value before other workers can query it, or if ranks have only one life.

    Thread  one at a time in `step`; the garbage collector sets `is_dropped`, in any thread
    """

    __slots__ = (
        "creation",
        "fork_id",
        "is_dropped",
        "maker",
        "owner",
        "parent",
        "rref_id",
        "state",
    )

    def __init__(
        self,
        owner: Worker,
        rref_id: int,
        fork_id: int,
        state: State,
        *,
        parent: int = NOBODY,
        maker: int = 0,
    ) -> None:
        self.owner, self.rref_id, self.fork_id = owner, rref_id, fork_id
        self.state, self.parent, self.maker = state, parent, maker
        # Whether no RRef object uses this reference any more. The garbage collector may set this
        # before the event DROPPED is processed.
        self.is_dropped = False
        # The Future of the call that makes the value, until that call has ended.
        self.creation: Future[Any] | None = None

    def step(self, event: Event) -> tuple[Do, ...]:
        """Process one event, and return the actions to take.

        Raises  KeyError for an event that cannot happen in this state
        """
        if self.state is State.ENDED:
            return ()
        self.state, actions = _STEPS[self.state, event]
        if event is Event.DROPPED:
            self.is_dropped = True
        elif self.is_dropped and self.state is State.COUNTED:
            self.state, more = _STEPS[self.state, Event.DROPPED]
            actions += more
        if self.state in (State.COUNTED, State.ENDED):
            self.creation = None
        return (
            actions if self.parent != NOBODY else tuple(do for do in actions if do is not Do.ACCEPT)
        )
