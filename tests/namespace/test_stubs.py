"""The stub of Tensor's methods says what is attached."""

from __future__ import annotations

from fastdist.namespace import stubs


def test_the_stub_is_what_the_generator_writes() -> None:
    written = stubs.path().read_text()
    assert written == stubs.render(), "run: python -m fastdist.namespace.stubs"
