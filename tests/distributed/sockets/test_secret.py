"""The job's secret: where it can come from, and that no text shows it."""

from __future__ import annotations

import base64
import copy
import hmac
import os
import pickle
from pathlib import Path

import pytest

from fastdist.core.errors import AuthenticationError
from fastdist.distributed.sockets import JobSecret

RAW = bytes(range(32))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (RAW.hex(), RAW),
        (RAW.hex().upper() + "\n", RAW),
        (base64.b64encode(RAW).decode(), RAW),
        (base64.urlsafe_b64encode(RAW).decode().rstrip("="), RAW),
        (base64.b64encode(b"\xff" * 32).decode(), b"\xff" * 32),
    ],
)
def test_hexadecimal_and_base64_are_read(text: str, secret: bytes) -> None:
    assert JobSecret.parse(text, "test").hex() == secret.hex()


@pytest.mark.parametrize("text", ["", "hunter2", "ab" * 31, "zz" * 32, "!" * 44, "\u00e9" * 64])
def test_what_is_no_secret_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(AuthenticationError, match="FASTDIST_JOB_SECRET") as info:
        JobSecret.parse(text, "FASTDIST_JOB_SECRET")
    assert not text or text not in str(info.value)


def test_a_secret_shows_only_where_it_came_from() -> None:
    secret = JobSecret.parse(RAW.hex(), "FASTDIST_JOB_SECRET")
    assert repr(secret) == str(secret) == "JobSecret(FASTDIST_JOB_SECRET)"


@pytest.mark.parametrize("copier", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_secret_does_not_travel(copier: object) -> None:
    with pytest.raises(TypeError, match="does not pickle"):
        copier(JobSecret.generate())  # type: ignore[operator]


def test_secrets_are_equal_by_content() -> None:
    one, two = JobSecret.parse(RAW.hex(), "one"), JobSecret.parse(RAW.hex(), "two")
    assert one == two and hash(one) == hash(two)
    assert one != JobSecret.generate() and one != RAW


def test_derived_keys_depend_on_every_label_and_on_where_it_ends() -> None:
    secret = JobSecret.parse(RAW.hex(), "test")
    labels = [(), ("a",), ("ab",), ("a", "b"), ("", "ab"), ("ab", "")]
    derived = {secret.derive(*label) for label in labels}
    assert len(derived) == len(labels)
    assert secret.derive("a") == JobSecret.parse(RAW.hex(), "again").derive("a")
    assert secret.derive("a") != JobSecret.generate().derive("a")


def hkdf_sha256(key: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """Return HKDF, computed block by block as RFC 5869 defines it."""
    extracted, block, output = hmac.digest(salt, key, "sha256"), b"", b""
    while len(output) < length:
        block = hmac.digest(extracted, block + info + bytes([len(output) // 32 + 1]), "sha256")
        output += block
    return output[:length]


def test_derived_keys_are_those_of_the_standard() -> None:
    # Check the reference implementation `hkdf_sha256` against test case 1 of RFC 5869.
    salt, info = bytes(range(13)), bytes(range(0xF0, 0xFA))
    assert hkdf_sha256(b"\x0b" * 22, salt, info, 42).hex() == (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )
    info = b"\0\0\0\5curve\0\0\0\3job\0\0\0\6rank:0"
    expected = hkdf_sha256(RAW, b"fastdist job secret v1", info, 32)
    assert JobSecret(RAW, "test").derive("curve", "job", "rank:0") == expected


def test_a_private_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(0o600)
    path.write_text(RAW.hex() + "\n")
    assert JobSecret.read_file(str(path)) == JobSecret(RAW, "test")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_text(RAW.hex())
    os.chmod(path, mode)
    with pytest.raises(AuthenticationError, match=f"mode {mode:04o} .*chmod 600"):
        JobSecret.read_file(str(path))


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    path.touch(0o600)
    owner = os.stat(path).st_uid
    if owner == 0:
        os.chown(path, 4_711, -1)
    monkeypatch.setattr(os, "getuid", lambda: 4_712)
    with pytest.raises(AuthenticationError, match=r"belongs to user \d+, expected this user"):
        JobSecret.read_file(str(path))


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(AuthenticationError, match="not a regular file"):
        JobSecret.read_file(str(tmp_path / "pipe"))


@pytest.mark.parametrize("name", ["absent", "."])
def test_a_file_that_is_none_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(AuthenticationError, match="cannot read the job secret"):
        JobSecret.read_file(str(tmp_path / name))


def test_the_environment_gives_a_secret_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(0o600)
    path.write_text(RAW.hex())
    given = {"FASTDIST_JOB_SECRET": RAW.hex()}
    named = {"FASTDIST_JOB_SECRET_FILE": str(path)}
    assert JobSecret.from_environment(given) == JobSecret.from_environment(named)
    assert JobSecret.from_environment({}) is None
    with pytest.raises(AuthenticationError, match="both set"):
        JobSecret.from_environment(given | named)
