"""Whether this worker is still one of the group, by what the others say of it."""

# No threads, sockets or clocks, as in session.py.
#
# Whom the others give up hears of it when it greets them: it is fenced, and nothing that it says is
# taken any more. One such word is enough for a worker that stood still itself: it woke up in a
# group that goes on without it. Otherwise the word of one proves little, which may have been cut
# off from all others and have given up each of them; then more must say so than are still there and
# do not.

from __future__ import annotations


class Standing:
    """What the members say of this worker.

    Thread  one at a time
    """

    def __init__(self) -> None:
        self._given_up_by: set[int] = set()

    def was_given_up(self, by: int, *, num_there: int, stood_still: bool) -> bool:
        """Take the word of one more member, by its incarnation; return whether this worker is out.

        `num_there` counts the others that this worker has met and that are neither lost to it nor
        have given it up.
        """
        self._given_up_by.add(by)
        return stood_still or len(self._given_up_by) > num_there
