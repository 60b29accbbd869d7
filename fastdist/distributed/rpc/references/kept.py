"""One value on its owner, from the first message about it to its end."""

# Note [What an owner counts]
# Another worker may query a value before the call that makes the value has arrived. The value is
# THERE when that call has returned or raised. If the value can never exist, FAIL stores an error in
# its place. The value is removed when it is THERE and neither an object on the owner nor another
# worker refers to it.
#
#                                     MADE
#              CALLED                 MAKER_LOST: FAIL          leave
#   AWAITED -----------> RUNNING ------------------> THERE ------------> GONE
#      |  MADE                                         ^
#      |  GIVEN_UP, MAKER_LOST: FAIL                   |
#      +-----------------------------------------------+
#
# A call that runs on the owner is not interrupted, even if its caller has given it up.

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..workers.worker import Worker


class State(Enum):
    """The state of a value."""

    AWAITED = auto()
    RUNNING = auto()
    THERE = auto()
    GONE = auto()


class Event(Enum):
    """Events of a value."""

    CALLED = auto()  # the remote call that makes the value has arrived
    MADE = auto()  # the call's function has returned or raised
    GIVEN_UP = auto()  # the calling worker reports that it gave up the call before the call ran
    MAKER_LOST = auto()  # the calling worker is lost, or is not a member


# The next state, and whether an error must be stored as the value.
_STEPS: Final[dict[tuple[State, Event], tuple[State, bool]]] = {
    (State.AWAITED, Event.CALLED): (State.RUNNING, False),
    (State.AWAITED, Event.MADE): (State.THERE, False),
    (State.AWAITED, Event.GIVEN_UP): (State.THERE, True),
    (State.AWAITED, Event.MAKER_LOST): (State.THERE, True),
    (State.RUNNING, Event.CALLED): (State.RUNNING, False),
    (State.RUNNING, Event.MADE): (State.THERE, False),
    (State.RUNNING, Event.GIVEN_UP): (State.RUNNING, False),
    (State.RUNNING, Event.MAKER_LOST): (State.THERE, True),
}


class KeptValue:
    """The state of a value. `users` has the value's forks: fork id -> the worker that holds the
    fork. `num_local` is the number of RRefs to the value on the owner.

    Thread  one at a time
    """

    __slots__ = ("num_local", "state", "users")

    def __init__(self) -> None:
        self.state = State.AWAITED
        self.users: dict[int, Worker] = {}
        self.num_local = 0

    def step(self, event: Event) -> bool:
        """Process one event; return whether an error must be stored as the value."""
        self.state, must_fail = _STEPS.get((self.state, event), (self.state, False))
        return must_fail

    def leave(self) -> bool:
        """If the value is THERE and has no references, set the state GONE. Return whether the state
        is GONE.
        """
        if self.state is State.THERE and not self.users and not self.num_local:
            self.state = State.GONE
        return self.state is State.GONE
