"""The secret that the owner of a loopback port leaves for others of its user."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastdist.core.errors import AuthenticationError
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.sockets.published_secret import (
    publish_secret,
    read_published_secret,
    withdraw_secret,
)


@pytest.fixture(autouse=True)
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fd-") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield Path(path)


def test_a_secret_is_read_until_its_owner_withdraws_it() -> None:
    secret = JobSecret.generate()
    assert read_published_secret("::1", 4410) is None
    publish_secret("::1", 4410, secret)
    assert read_published_secret("::1", 4410) == secret
    withdraw_secret("::1", 4410, JobSecret.generate())
    assert read_published_secret("::1", 4410) == secret
    withdraw_secret("::1", 4410, secret)
    assert read_published_secret("::1", 4410) is None


def test_a_secret_that_is_withdrawn_as_it_is_looked_for_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os.path, "exists", lambda path: True)  # a moment ago
    assert read_published_secret("127.0.0.1", 4410) is None


def test_a_full_disk_is_told_and_leaves_nothing(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(
        AuthenticationError, match=r"127\.0\.0\.1:4410 cannot be left at .*No space"
    ):
        publish_secret("127.0.0.1", 4410, JobSecret.generate())
    assert list((base / "fastdist").iterdir()) == []
