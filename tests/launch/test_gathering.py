"""Cards describe the nodes of a run: cards that match, and cards that are missing at a timeout."""

from __future__ import annotations

import io
import re
import threading
import time

import pytest

from fastdist.core.errors import RendezvousError, StoreTimeoutError
from fastdist.distributed.store import HashStore
from fastdist.distributed.store.wait_log import WaitLog
from fastdist.launch.gathering import Card, Members, find_fault, gather


def _gather(store: HashStore, card: Card, timeout_s: float = 10.0) -> Members:
    line = WaitLog(f"node {card.node}", timeout_s, io.StringIO())
    return gather(store, card, line, lambda: False)


def test_cards_that_fit_have_no_fault() -> None:
    assert find_fault([Card(1, 3, 2, "b"), Card(0, 3, 1, "a")]) == ""


def test_all_nodes_get_all_cards_in_order() -> None:
    cards = [Card(node, 3, node + 1, f"10.0.0.{node}") for node in range(3)]
    found: dict[int, Members] = {}
    with HashStore() as store:

        def take_part(card: Card) -> None:
            found[card.node] = _gather(store, card)

        threads = [threading.Thread(target=take_part, args=(card,)) for card in reversed(cards)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20.0)
    assert found == dict.fromkeys(range(3), Members(0, tuple(cards)))


def test_who_does_not_come_is_named_with_the_time() -> None:
    told = r"nodes 1, 2 of 3 did not come within (\d+) s; look for what ended `fastdist run` there"
    began = time.monotonic()
    with HashStore() as store, pytest.raises(StoreTimeoutError) as error:
        _gather(store, Card(0, 3, 1, "a"), timeout_s=0.6)
    found = re.match(told, str(error.value))
    assert found is not None and 1 <= int(found[1]) <= round(time.monotonic() - began)


def test_the_second_of_two_is_refused_whenever_it_comes() -> None:
    with HashStore() as store:
        assert len(_gather(store, Card(0, 1, 1, "a")).cards) == 1
        told = "^--node-rank 0 was given twice, at a and at b; give each node its own, from 0 to 0"
        with pytest.raises(RendezvousError, match=told):
            _gather(store, Card(0, 1, 1, "b"))
