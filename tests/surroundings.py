"""The environment variables of the tests: those of the user that describe the machine."""

from __future__ import annotations

from collections.abc import MutableMapping

# Variables that tests keep. Others may change a test's result: a job's rank, a secret, a number of
# threads, or an option of Python. A test itself sets the variables that it needs.
_KEPT = {
    *("CI", "HOME", "LANG", "LOGNAME", "NETRC", "NO_COLOR", "PATH", "PY_COLORS", "PYTHONPATH"),
    *("SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
    *("ALL_PROXY", "CURL_CA_BUNDLE", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
    *("REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    *("CC", "CFLAGS", "CPPFLAGS", "CXX", "CXXFLAGS", "LDFLAGS"),
    *("APPDATA", "COMSPEC", "LOCALAPPDATA", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "USERPROFILE"),
}
_KEPT_FAMILIES = (
    "COV",
    "CUDA_",
    "DYLD_",
    "LD_",
    "NVIDIA_",
    "PIP_",
    "PYTEST_",
    "UV_",
    "XDG_RUNTIME",
)


def set_aside_what_is_not_the_tests(environment: MutableMapping[str, str]) -> None:
    """Remove all variables from `environment` that may change the result of a test."""
    for name in list(environment):
        if name.upper() not in _KEPT and not name.upper().startswith(_KEPT_FAMILIES):
            del environment[name]
