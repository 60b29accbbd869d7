"""The secret that the owner of a loopback port publishes for processes of the same user."""

from __future__ import annotations

import errno
import os
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
from tests.short_folders import short_folder


@pytest.fixture(autouse=True)
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with short_folder() as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield Path(path)


def files_in(base: Path) -> list[str]:
    return sorted(path.name for path in (base / "fastdist").iterdir())


def test_a_secret_is_read_until_its_owner_withdraws_it(base: Path) -> None:
    secret = JobSecret.generate()
    assert read_published_secret("::1", 4410) is None
    published = publish_secret("::1", 4410, secret)
    assert read_published_secret("::1", 4410) == secret
    withdraw_secret("::1", 4410, published)
    assert read_published_secret("::1", 4410) is None
    assert files_in(base) == []


def test_an_owner_does_not_withdraw_the_secret_of_the_next_one(base: Path) -> None:
    former = publish_secret("::1", 4410, JobSecret.generate())
    secret = JobSecret.generate()
    published = publish_secret("::1", 4410, secret)
    withdraw_secret("::1", 4410, former)
    assert read_published_secret("::1", 4410) == secret
    withdraw_secret("::1", 4410, published)
    assert files_in(base) == []


def test_a_secret_that_comes_as_an_older_one_is_removed_stays(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = publish_secret("::1", 4410, JobSecret.generate())
    secret, rename = JobSecret.generate(), os.rename
    published: list[int] = []

    def publish_and_rename(source: str, target: str) -> None:
        published.append(publish_secret("::1", 4410, secret))
        rename(source, target)

    monkeypatch.setattr(os, "rename", publish_and_rename)
    withdraw_secret("::1", 4410, former)
    monkeypatch.setattr(os, "rename", rename)
    assert read_published_secret("::1", 4410) == secret
    withdraw_secret("::1", 4410, published[0])
    assert files_in(base) == []


def test_what_a_killed_owner_left_is_removed_by_the_next_one(base: Path) -> None:
    alive = publish_secret("127.0.0.1", 4410, JobSecret.generate())
    killed = publish_secret("127.0.0.1", 4411, JobSecret.generate())
    os.close(killed)  # as if the process had ended
    own = publish_secret("127.0.0.1", 4412, JobSecret.generate())
    assert files_in(base) == ["store-127.0.0.1-4410.secret", "store-127.0.0.1-4412.secret"]
    withdraw_secret("127.0.0.1", 4410, alive)
    withdraw_secret("127.0.0.1", 4412, own)


def test_a_secret_that_is_withdrawn_as_it_is_looked_for_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os.path, "exists", lambda path: True)  # as if the file vanished after this
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
