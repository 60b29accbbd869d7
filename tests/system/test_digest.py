"""SHA-256 and HMAC give the values of the standards and of `hashlib`, and load no OpenSSL."""

from __future__ import annotations

import hashlib
import hmac
import os
import subprocess
import sys

import pytest

from fastdist.system.digest import hmac_sha256, sha256


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 1000, 100_000])
def test_digests_and_codes_are_those_of_the_standard_library(size: int) -> None:
    data = os.urandom(size)
    assert sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()
    for key in (b"", os.urandom(32), os.urandom(64), os.urandom(65), data):
        assert hmac_sha256(key, data) == hmac.new(key, data, hashlib.sha256).digest()


@pytest.mark.parametrize(
    ("key", "message", "code"),
    [
        (
            b"\x0b" * 20,
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"\xaa" * 131,
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
    ],
)
def test_codes_are_those_of_rfc_4231(key: bytes, message: bytes, code: str) -> None:
    assert hmac_sha256(key, message).hex() == code


def test_a_worker_does_not_load_openssl() -> None:
    script = (
        "import sys, fastdist, fastdist.distributed.rpc, fastdist.distributed.autograd\n"
        "import fastdist.distributed.optim, fastdist.data\n"
        "from fastdist.distributed.sockets import JobSecret\n"
        "from fastdist.examples.digits_data import load_digits\n"
        "JobSecret.generate().derive('a label')\n"
        "load_digits()\n"
        "print(sorted({'_hashlib', '_ssl', 'numpy.random'} & set(sys.modules)))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (told.stdout, told.stderr) == ("[]\n", "")
