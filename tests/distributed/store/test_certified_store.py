"""A served store whose clients each have a certificate."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastdist.core.errors import AuthenticationError
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.store import FileStore, HashStore, TCPStore, host_store
from tests.distributed.certificates import make_certificates


@pytest.fixture
def path(tmp_path: Path) -> str:
    return make_certificates(tmp_path / "certificates", 3)


@pytest.fixture
def served(path: str) -> Iterator[TCPStore]:
    store, _ = host_store(security="certs", certificates=path, timeout=10)
    with store:
        yield store


def connect(port: int, path: str, rank: int | None) -> TCPStore:
    return TCPStore("127.0.0.1", port, security="certs", certificates=path, rank=rank, timeout=10)


def without(path: str, folder: Path, *names: str) -> str:
    """Copy the folder of certificates without the files with these names; return the new path."""
    shutil.copytree(path, folder)
    for name in names:
        os.unlink(folder / name)
    return str(folder)


def test_every_rank_reaches_the_store_with_its_own_certificate(served: TCPStore, path: str) -> None:
    for rank in range(3):
        with connect(served.port, path, rank) as client:
            client.set(f"key {rank}", "value")
    assert served.num_keys() == 3
    assert served.job_secret is None


def test_the_environment_names_the_folder_and_the_rank(
    served: TCPStore, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = without(path, tmp_path / "mine", "rank-0.key_secret", "rank-2.key_secret")
    monkeypatch.setenv("FASTDIST_SECURITY", "certs")
    monkeypatch.setenv("FASTDIST_CERTIFICATES", mine)
    monkeypatch.setenv("RANK", "1")
    with TCPStore("127.0.0.1", served.port, timeout=10) as client:
        client.set("key", "value")
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(AuthenticationError, match=r"rank-2\.key_secret': No such file"):
        TCPStore("127.0.0.1", served.port, timeout=10)


def test_who_has_no_rank_speaks_as_the_first_one_that_runs_here(
    served: TCPStore, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    mine = without(path, tmp_path / "mine", "rank-0.key_secret", "store.key_secret")
    with connect(served.port, mine, None) as client:
        client.set("key", "value")


def test_certificates_of_another_job_are_refused(
    served: TCPStore, path: str, tmp_path: Path
) -> None:
    other = make_certificates(tmp_path / "other", 3)
    shutil.copy(os.path.join(path, "store.key"), other)
    with pytest.raises(AuthenticationError, match="certificate given here is not one of"):
        connect(served.port, other, 1)
    with pytest.raises(AuthenticationError, match="refused the handshake"):
        TCPStore("127.0.0.1", served.port, secret=JobSecret.generate(), timeout=10)


def test_who_does_not_hold_the_stores_key_cannot_serve_as_it(path: str, tmp_path: Path) -> None:
    other = make_certificates(tmp_path / "other", 3)
    store, port = host_store(security="certs", certificates=other, timeout=10)
    with store, pytest.raises(AuthenticationError, match="refused the handshake"):
        connect(port, path, 1)
    mine = without(path, tmp_path / "mine", "store.key_secret")
    with pytest.raises(AuthenticationError, match=r"store\.key_secret': No such file"):
        host_store(security="certs", certificates=mine)


def test_a_folder_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTDIST_CERTIFICATES", raising=False)
    with pytest.raises(AuthenticationError, match="certificates= or FASTDIST_CERTIFICATES"):
        host_store(security="certs")


def test_stores_that_are_not_served_hold_no_secret_of_such_a_job(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDIST_SECURITY", "certs")
    with HashStore() as store:
        assert store.job_secret is None
    with FileStore(str(tmp_path / "file"), certificates=path) as store:
        assert store.job_secret is None
    with open(tmp_path / "file", "rb") as file:
        assert file.read() == b"fastdist store 1\n"
