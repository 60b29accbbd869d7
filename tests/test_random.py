"""`fastdist.random`: PyTorch's functions for generators, and blocks that restore their states."""

from __future__ import annotations

import fastdist as fd


def test_a_forked_stream_is_put_back() -> None:
    state = fd.random.get_rng_state()
    fd.random.manual_seed(5)
    first = fd.rand(2)
    fd.random.manual_seed(5)
    with fd.random.fork_rng():
        fd.rand(7)
        fd.manual_seed(1)
    assert fd.rand(2).tolist() == first.tolist() and fd.random.initial_seed() == 5
    fd.random.manual_seed(5)
    with fd.random.fork_rng(enabled=False):
        fd.rand(2)
    assert fd.rand(2).tolist() != first.tolist()
    fd.random.set_rng_state(state)
