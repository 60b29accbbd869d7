"""The address of an accepted connection's peer, before and after this end closes the connection."""

from __future__ import annotations

import os
import socket

import pytest

from fastdist.distributed.sockets.other_end import ends_closed_here, other_end

LOOPBACKS = [("127.0.0.1", "127.0.5.1"), ("::1", "::1")]


@pytest.mark.parametrize(("here", "there"), LOOPBACKS)
def test_the_other_end_is_known_while_it_is_there_and_once_it_was_closed_here(
    here: str, there: str
) -> None:
    family = socket.AF_INET6 if ":" in here else socket.AF_INET
    with socket.create_server((here, 0), family=family) as server:
        port = server.getsockname()[1]
        with socket.create_connection((here, port), source_address=(there, 0)) as client:
            accepted, _ = server.accept()
            theirs = client.getsockname()[:2]
            assert other_end(accepted.fileno(), port) == theirs
            assert other_end(accepted.fileno(), port + 1) is None
            assert ends_closed_here(port, 2.0) == []
            accepted.close()
            assert ends_closed_here(port, 2.0) == [theirs]
        assert ends_closed_here(port, 2.0) == [theirs]


def test_a_descriptor_that_is_no_connection_leads_to_nobody() -> None:
    read, write = os.pipe()
    assert other_end(read, 1) is None
    os.close(read)
    os.close(write)
    assert other_end(read, 1) is None
