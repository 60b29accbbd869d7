"""Who feels a peer's pulse closes what it knocks with."""

from __future__ import annotations

import socket
from typing import Any

from fastdist.distributed.rpc.workers.watching import PulseTaker
from fastdist.distributed.sockets import Pulse
from tests.distributed.rpc.workers.by_hand import ProgressByHand


def test_a_knock_that_is_not_answered_yet_is_closed_with_who_waits_for_it() -> None:
    progress: Any = ProgressByHand()
    progress.num_pulses = 0
    pulse, lane = Pulse(), None
    taker = PulseTaker(lane, pulse, progress, lambda: None, lambda: True)  # type: ignore[arg-type]
    knock: Any = socket.socket()
    pulse.knock = knock
    progress.watch(knock.fileno(), pulse.heard)
    taker.stop()
    # Its descriptor may be another's at once.
    assert knock.fileno() == -1 and not progress.readers
