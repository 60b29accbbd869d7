"""Certificates: required owners of files, and protection against members that pose as others."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq
import zmq.auth
from zmq.utils import z85

from fastdist.core.errors import AuthenticationError
from fastdist.distributed.sockets import (
    CertificateFolder,
    CertificateSecurity,
    CurveSecurity,
    JobSecret,
    NoSecurity,
    Security,
    Socket,
    authenticated_rank,
    bind,
    certificates,
    connect,
    make_socket,
    monitor,
)
from tests.distributed.certificates import make_certificates
from tests.distributed.sockets.test_security import FAILED, endpoint_of, first_verdict


@pytest.fixture
def path(tmp_path: Path) -> str:
    return make_certificates(tmp_path / "certificates", 3)


@pytest.fixture
def router(path: str) -> Iterator[Socket]:
    router = make_socket(zmq.ROUTER, "router of rank 0")
    router.set(zmq.RCVTIMEO, 10_000)
    bind(router, "tcp://127.0.0.1:0", member(path, 0))
    yield router
    router.close()


def member(path: str, rank: int, world: int = 3) -> CertificateSecurity:
    return CertificateSecurity.for_rank(CertificateFolder(path), rank, world)


def raw_key(path: str, name: str) -> bytes:
    public_key, _ = zmq.auth.load_certificate(os.path.join(path, f"{name}.key"))
    return z85.decode(public_key)


def write_certificate(path: str, name: str, text: str) -> None:
    file = Path(path, f"{name}.key")
    file.write_text(text)
    file.chmod(0o644)  # a common umask makes it group-writable, which is rejected


@pytest.mark.parametrize("letters", ["'" * 40, "#" * 40])
def test_a_damaged_certificate_is_named_and_stops_nobody_else(
    router: Socket, path: str, tmp_path: Path, letters: str
) -> None:
    other = make_certificates(tmp_path / "other", 2)
    shutil.copy(os.path.join(path, "rank-0.key"), os.path.join(other, "rank-0.key"))
    stranger = CertificateSecurity(CertificateFolder(other), "rank:1", lambda key: None)
    write_certificate(path, "rank-3", f'curve\n    public-key = "{letters}"\n')
    with pytest.raises(AuthenticationError, match=r"rank-3\.key' is damaged: its public-key is no"):
        CertificateFolder(path).read_ranks()
    # The handler's thread reads the folder again for a stranger; the damaged file does not end it.
    assert first_verdict(endpoint_of(router), stranger) in FAILED
    security = CertificateSecurity(CertificateFolder(path), "rank:1", lambda key: None)
    assert first_verdict(endpoint_of(router), security) == monitor.HANDSHAKE_SUCCEEDED


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_member_is_let_in_and_its_rank_is_known(router: Socket, path: str, rank: int) -> None:
    lane = make_socket(zmq.DEALER, "lane")
    lane.set(zmq.SNDTIMEO, 10_000)
    connect(lane, endpoint_of(router), member(path, rank), peer="rank:0")
    lane.send(b"hello")
    assert [authenticated_rank(frame) for frame in router.recv_multipart(copy=False)] == [rank] * 2
    lane.close()


def test_a_member_cannot_pose_as_another_with_all_that_it_has(
    router: Socket, path: str, tmp_path: Path
) -> None:
    # Rank 2 knows all public keys and its own secret key. In a copy of the folder, it stores its
    # own keys under the name of rank 1.
    forged = tmp_path / "forged"
    shutil.copytree(path, forged)
    for kind in ("key", "key_secret"):
        shutil.copy(forged / f"rank-2.{kind}", forged / f"rank-1.{kind}")
    os.unlink(forged / "rank-2.key")
    posing = CertificateSecurity(CertificateFolder(str(forged)), "rank:1", lambda key: None)
    lane = make_socket(zmq.DEALER, "lane")
    lane.set(zmq.SNDTIMEO, 10_000)
    connect(lane, endpoint_of(router), posing, peer="rank:0")
    lane.send(b"I am rank 1")
    assert authenticated_rank(router.recv_multipart(copy=False)[1]) == 2
    lane.close()


@pytest.mark.parametrize("who", ["other folder", "beyond the world", "store", "curve", "plain"])
def test_whoever_has_no_certificate_of_the_job_is_refused(
    router: Socket, path: str, tmp_path: Path, who: str
) -> None:
    other = make_certificates(tmp_path / "other", 4)
    shutil.copy(os.path.join(path, "rank-0.key"), os.path.join(other, "rank-0.key"))
    shutil.copy(os.path.join(other, "rank-3.key"), os.path.join(path, "rank-3.key"))
    folder, theirs = CertificateFolder(path), CertificateFolder(other)
    strangers: dict[str, Security] = {
        "other folder": CertificateSecurity(theirs, "rank:1", theirs.rank_of),
        "beyond the world": CertificateSecurity(theirs, "rank:3", theirs.rank_of),
        "store": CertificateSecurity(folder, "store", folder.rank_of),
        "curve": CurveSecurity.for_rank(JobSecret.generate(), "", 1, 3),
        "plain": NoSecurity(),
    }
    assert first_verdict(endpoint_of(router), strangers[who], "rank:0") in FAILED


def test_a_server_with_another_members_key_is_not_believed(router: Socket, path: str) -> None:
    assert first_verdict(endpoint_of(router), member(path, 1), "rank:2") in FAILED


def test_the_store_admits_every_rank_and_a_client_admits_nobody(path: str) -> None:
    folder = CertificateFolder(path)
    store = make_socket(zmq.ROUTER, "store")
    endpoint = bind(store, "tcp://127.0.0.1:0", CertificateSecurity.for_store(folder))
    client = CertificateSecurity.for_store_client(folder, 2)
    assert first_verdict(endpoint, client, "store") == monitor.HANDSHAKE_SUCCEEDED
    assert first_verdict(endpoint, client, "rank:0") in FAILED
    assert client._admits(raw_key(path, "rank-1")) is None
    store.close()


def test_a_dynamic_group_admits_a_rank_whose_certificate_came_later(
    path: str, tmp_path: Path
) -> None:
    folder = CertificateFolder(path)
    folder.read_ranks()
    other = make_certificates(tmp_path / "other", 8)
    assert folder.rank_of(raw_key(other, "rank-7")) is None
    shutil.copy(os.path.join(other, "rank-7.key"), path)
    assert folder.rank_of(raw_key(other, "rank-7")) == "7"
    assert folder.rank_of(raw_key(path, "rank-1")) == "1"


def test_a_folder_that_breaks_later_keeps_those_that_it_knows(path: str) -> None:
    folder = CertificateFolder(path)
    folder.read_ranks()
    known = raw_key(path, "rank-1")
    write_certificate(path, "rank-5", "half written")
    assert folder.rank_of(bytes(32)) is None
    assert folder.rank_of(known) == "1"


def settle(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the files appear old enough that their time stamps can be trusted."""
    now_ns = time.time_ns()
    newest_ns = max(file.stat().st_ctime_ns for file in Path(path).iterdir())
    probe = Path(path).with_name("probe")
    probe.touch()
    while probe.stat().st_ctime_ns == newest_ns:
        probe.touch()  # until the file system's clock has ticked, a few hundred times a second
    monkeypatch.setattr(certificates.time, "time_ns", lambda: now_ns + 10**10)


def take_away(path: str, other: str) -> None:
    os.unlink(os.path.join(path, "rank-1.key"))


def replace_file(path: str, other: str) -> None:
    os.replace(os.path.join(other, "rank-1.key"), os.path.join(path, "rank-1.key"))


def write_in_place(path: str, other: str) -> None:
    with open(os.path.join(path, "rank-1.key"), "r+b") as file:
        file.write(Path(other, "rank-1.key").read_bytes())
        file.truncate()


def spoil_file(path: str, other: str) -> None:
    write_certificate(path, "rank-1", "half written")


def break_another_as_well(path: str, other: str) -> None:
    write_certificate(path, "rank-2", "half written")
    take_away(path, other)


def let_others_write(path: str, other: str) -> None:
    os.chmod(os.path.join(path, "rank-1.key"), 0o666)


def give_it_to_another(path: str, other: str) -> None:
    os.rename(os.path.join(path, "rank-1.key"), os.path.join(path, "rank-5.key"))


def remove_the_folder(path: str, other: str) -> None:
    shutil.rmtree(path)


WITHDRAWALS = [
    take_away,
    replace_file,
    write_in_place,
    spoil_file,
    break_another_as_well,
    let_others_write,
    give_it_to_another,
    remove_the_folder,
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("is_settled", [True, False])
@pytest.mark.parametrize("withdraw", WITHDRAWALS, ids=lambda one: one.__name__)
def test_a_key_that_was_withdrawn_opens_nothing_from_then_on(
    path: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    withdraw: Callable[[str, str], None],
    is_settled: bool,
) -> None:
    other = make_certificates(tmp_path / "other", 3)
    old, new = raw_key(path, "rank-1"), raw_key(other, "rank-1")
    if is_settled:
        settle(path, monkeypatch)
    folder = CertificateFolder(path)
    folder.read_ranks()
    assert folder.rank_of(old) == "1"
    withdraw(path, other)
    assert folder.rank_of(old) == ("5" if withdraw is give_it_to_another else None)
    is_replaced = withdraw in (replace_file, write_in_place)
    assert folder.rank_of(new) == ("1" if is_replaced else None)


def test_a_change_within_one_tick_of_the_clock_is_seen(path: str, tmp_path: Path) -> None:
    other = make_certificates(tmp_path / "other", 3)
    old = raw_key(path, "rank-1")
    file = os.path.join(path, "rank-1.key")
    folder = CertificateFolder(path)
    folder.read_ranks()
    before = os.stat(file)
    write_in_place(path, other)
    # If the clock is coarse, the only difference is the change time of the inode, which users
    # cannot set.
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert folder.rank_of(old) is None


def test_a_withdrawn_member_is_refused_and_let_in_again_when_it_is_put_back(
    router: Socket, path: str, tmp_path: Path
) -> None:
    security = member(path, 1)
    assert first_verdict(endpoint_of(router), security) == monitor.HANDSHAKE_SUCCEEDED
    shutil.move(os.path.join(path, "rank-1.key"), tmp_path)
    assert first_verdict(endpoint_of(router), security) in FAILED
    assert first_verdict(endpoint_of(router), member(path, 2)) == monitor.HANDSHAKE_SUCCEEDED
    shutil.move(tmp_path / "rank-1.key", path)
    assert first_verdict(endpoint_of(router), security) == monitor.HANDSHAKE_SUCCEEDED


def test_a_connection_that_lives_is_not_cut_when_its_key_is_withdrawn(
    router: Socket, path: str
) -> None:
    lane = make_socket(zmq.DEALER, "lane")
    lane.set(zmq.SNDTIMEO, 10_000)
    connect(lane, endpoint_of(router), member(path, 1), peer="rank:0")
    lane.send(b"before")
    assert router.recv_multipart()[1] == b"before"
    os.unlink(os.path.join(path, "rank-1.key"))
    lane.send(b"after")
    assert router.recv_multipart()[1] == b"after"
    lane.close()


def test_a_key_that_two_ranks_have_proves_neither(path: str) -> None:
    folder = CertificateFolder(path)
    folder.read_ranks()
    shared, other = raw_key(path, "rank-1"), raw_key(path, "rank-0")
    shutil.copy(os.path.join(path, "rank-1.key"), os.path.join(path, "rank-2.key"))
    assert folder.rank_of(bytes(32)) is None
    assert [folder.rank_of(shared), folder.rank_of(other)] == [None, "0"]


def test_trouble_with_the_folder_is_logged_once_not_for_each_who_comes(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = CertificateFolder(path)
    folder.read_ranks()
    write_certificate(path, "rank-5", "half written")
    for _ in range(20):
        assert folder.rank_of(bytes(32)) is None
    (told,) = caplog.records
    assert "rank-5.key' is not a certificate" in told.getMessage()


def test_whoever_is_known_and_unchanged_costs_no_more_than_a_look(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(path, monkeypatch)
    folder = CertificateFolder(path)
    folder.read_ranks()
    monkeypatch.setattr(folder, "_read", None)  # reading any file would now fail
    assert folder.rank_of(raw_key(path, "rank-1")) == "1"
    assert folder.rank_of(bytes(32)) is None


def test_the_first_rank_of_a_machine_is_the_one_whose_secret_is_there(path: str) -> None:
    os.unlink(os.path.join(path, "rank-0.key_secret"))
    assert CertificateFolder(path).first_rank_here() == 1
    for rank in (1, 2):
        os.unlink(os.path.join(path, f"rank-{rank}.key_secret"))
    with pytest.raises(AuthenticationError, match=r"holds no rank-N\.key_secret"):
        CertificateFolder(path).first_rank_here()


@pytest.mark.parametrize(
    ("name", "mode", "text"),
    [
        ("rank-1.key_secret", 0o644, r"rank-1\.key_secret': mode 0644 lets others read it"),
        ("rank-1.key_secret", 0o640, r"run chmod 600"),
        ("rank-1.key", 0o666, r"rank-1\.key': mode 0666 lets others write to it; run chmod go-w"),
        ("", 0o777, r"certificates': mode 0777 lets others write to it"),
    ],
)
def test_files_that_others_may_touch_are_refused(
    path: str, name: str, mode: int, text: str
) -> None:
    os.chmod(os.path.join(path, name), mode)
    with pytest.raises(AuthenticationError, match=text):
        member(path, 1)


def test_files_of_another_user_are_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.stat(path).st_uid == 0:
        for name in (*os.listdir(path), ""):
            os.chown(os.path.join(path, name), 4_711, -1)
    monkeypatch.setattr(os, "getuid", lambda: 4_712)
    with pytest.raises(AuthenticationError, match=r"belongs to user \d+, expected this user"):
        member(path, 1)


def spoil(path: str, name: str, text: str | None) -> None:
    whole = os.path.join(path, name)
    if text is None:
        os.unlink(whole)
    else:
        with open(whole, "w") as file:
            file.write(text)


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("rank-1.key_secret", None, r"cannot read the certificate .*rank-1\.key_secret': No such"),
        ("rank-2.key", "", r"rank-2\.key' is not a certificate: it has no public-key"),
        ("rank-1.key_secret", 'secret-key = "short"', r"it has no secret-key"),
    ],
)
def test_what_is_no_certificate_is_named(
    path: str, name: str, text: str | None, error: str
) -> None:
    spoil(path, name, text)
    with pytest.raises(AuthenticationError, match=error):
        member(path, 1)


def test_a_pair_that_does_not_belong_together_is_told(path: str) -> None:
    shutil.copy(os.path.join(path, "rank-2.key"), os.path.join(path, "rank-1.key"))
    with pytest.raises(AuthenticationError, match=r"does not belong to rank-1\.key next to it"):
        CertificateFolder(path).secret_key("rank:1")
    with pytest.raises(AuthenticationError, match=r"rank-1\.key and rank-2\.key hold one key"):
        member(path, 0)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError, match=r"no folder of certificates at .*nowhere"):
        CertificateFolder(str(tmp_path / "nowhere"))
    (tmp_path / "file").touch()
    with pytest.raises(AuthenticationError, match="file' is not a folder of certificates"):
        CertificateFolder(str(tmp_path / "file"))


def test_keys_are_shown_nowhere(path: str) -> None:
    security = member(path, 1)
    shown = repr(security) + repr(CertificateFolder(path))
    assert "rank:1" in shown and security._secret_key.decode() not in shown
