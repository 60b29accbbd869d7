"""What workers tell each other of a pass in the metadata of messages: written and read here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..rpc.message.metadata import Value
from ..rpc.message.words import Words, flag, number, numbers, refuse, text

_CONTEXT_ID = "context_id"
_PASS_ID = "pass_id"
_RETAIN_GRAPH = "retain_graph"
_AUTO = "auto"
# Written only where they hold.
_CREATE_GRAPH = "create_graph"
_TO_GRAD = "accumulate_to_grad"
_REASON = "reason"
_LONGEST_REASON = 1000
# In a question and its answer: sends whose receive may not be there.
_SENDS = "sends"
_BEGUN = "begun"


class Terms(NamedTuple):
    """What all workers of a pass agree on: which one it is, and how it runs."""

    context_id: int
    pass_id: int
    retain_graph: bool = False
    is_auto: bool = False
    create_graph: bool = False
    to_grad: bool = False

    def write(self) -> dict[str, Value]:
        """Return the words for a message with gradients."""
        words: dict[str, Value] = {
            _CONTEXT_ID: self.context_id,
            _PASS_ID: self.pass_id,
            _RETAIN_GRAPH: self.retain_graph,
            _AUTO: self.is_auto,
        }
        if self.create_graph:
            words[_CREATE_GRAPH] = True
        if self.to_grad:
            words[_TO_GRAD] = True
        return words

    @classmethod
    def read(cls, words: Words, sender: int) -> Terms:
        """Return what a message with gradients says.

        Raises  MessageError if it says something else, as all that reads here
        """
        return cls(
            number(words, _CONTEXT_ID, sender),
            number(words, _PASS_ID, sender),
            flag(words, _RETAIN_GRAPH, sender),
            flag(words, _AUTO, sender),
            _CREATE_GRAPH in words and flag(words, _CREATE_GRAPH, sender),
            _TO_GRAD in words and flag(words, _TO_GRAD, sender),
        )


def write_abort(terms: Terms, reason: str) -> dict[str, Value]:
    """Return the words that end a pass."""
    return {**_which(terms), _REASON: reason[:_LONGEST_REASON]}


def read_abort(words: Words, sender: int) -> tuple[Terms, str]:
    """Return which pass is to end, and why."""
    return _read_which(words, sender), text(words, _REASON, sender)


def write_question(terms: Terms, sends: Iterable[int] | None = None) -> dict[str, Value]:
    """Return the words that ask how a pass stands, or which of these sends have no receive."""
    return _which(terms) if sends is None else {**_which(terms), _SENDS: [*sends]}


def read_question(words: Words, sender: int) -> tuple[Terms, tuple[int, ...] | None]:
    """Return of which pass a question is, and of which sends, if it is that question."""
    return _read_which(words, sender), numbers(words, _SENDS, sender) if _SENDS in words else None


def write_sends(sends: Iterable[int], *, begun: bool) -> dict[str, Value]:
    """Return the words that answer a question of sends: which, and whether the pass has begun."""
    return {_SENDS: [*sends], _BEGUN: begun}


def read_sends(words: Words, sender: int) -> tuple[bool, tuple[int, ...]]:
    """Return whether the pass has begun at who answers, and the sends that it names."""
    return flag(words, _BEGUN, sender), numbers(words, _SENDS, sender)


def _which(terms: Terms) -> dict[str, Value]:
    return {_CONTEXT_ID: terms.context_id, _PASS_ID: terms.pass_id}


def _read_which(words: Words, sender: int) -> Terms:
    return Terms(number(words, _CONTEXT_ID, sender), number(words, _PASS_ID, sender))


class Progress(NamedTuple):
    """How a pass stands at one worker, for its root."""

    running: int
    sent: int
    received: int
    begun: bool
    # Message ids of sends to which no gradient came, and the workers that should send one.
    waiting: tuple[int, ...] = ()
    waits_for: tuple[int, ...] = ()
    # Whom this worker knows: so the root reaches them all.
    workers: tuple[int, ...] = ()

    def write(self) -> dict[str, Value]:
        """Return the words for an answer."""
        words: dict[str, Value] = {name: getattr(self, name) for name in (*_COUNTS, _BEGUN)}
        words.update((name, [*getattr(self, name)]) for name in _LISTS)
        return words

    @classmethod
    def read(cls, words: Words, sender: int) -> Progress:
        """Return what an answer says."""
        running, sent, received = (number(words, name, sender) for name in _COUNTS)
        begun = flag(words, _BEGUN, sender)
        waiting, waits_for, workers = (numbers(words, name, sender) for name in _LISTS)
        if len(waiting) != len(waits_for):
            refuse(words, "waits_for", sender, "as many numbers as in 'waiting'")
        return cls(running, sent, received, begun, waiting, waits_for, workers)


_COUNTS = ("running", "sent", "received")
_LISTS = ("waiting", "waits_for", "workers")
