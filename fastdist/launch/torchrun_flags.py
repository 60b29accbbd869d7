"""torchrun's flags: those with an equivalent in `fastdist run`, and advice for the others."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

# The port of an --rdzv-endpoint without a port, as in torchrun.
_ENDPOINT_PORT = "29400"
# The supported values of --rdzv-backend; with both, nodes meet at a store on the first node.
_BACKENDS = ("c10d", "static")

# The settings of --rdzv-conf and the equivalent options; other settings have no effect here.
_CONF: Mapping[str, str] = {
    "timeout": "init_timeout",
    "join_timeout": "init_timeout",
    "last_call_timeout": "rejoin_timeout",
}
_CONF_WITHOUT_MEANING = frozenset(
    {"close_timeout", "heartbeat", "is_host", "keep_alive_interval", "keep_alive_max_attempt"}
    | {"keep_alive_timeout", "read_timeout", "store_type", "use_libuv"}
)

INSTEAD: Mapping[str, str] = {
    "--start-method": "leave it out: each worker is its own Python process",
    "--event-log-handler": "leave it out: events are reported on stderr",
    "--no-python": "workers are Python programs: let one of a few lines call os.execvp",
    "--run-path": "leave it out: a script runs as __main__ of its process",
    "--local-ranks-filter": "keep the output of the others in files alone, such as "
    "--redirects 1:3,2:3",
    "--duplicate-stdout-filters": "keep all of it with --log-dir, and search it by grep",
    "--duplicate-stderr-filters": "keep all of it with --log-dir, and search it by grep",
    "--logs-specs": "--log-dir, --redirects and --tee say where output goes",
    "--numa-binding": "start the command by numactl, or let the program call os.sched_setaffinity",
    "--signals-to-handle": "leave it out: INT, TERM and HUP end the job, USR1 and USR2 are passed "
    "on to the workers",
    "--virtual-local-rank": "use --gpus-per-worker 1: each worker then finds its GPU as cuda:0",
}


def read_rendezvous(given: argparse.Namespace) -> None:
    """Convert --rdzv-endpoint to --master-addr and --master-port.

    Raises  ValueError for a backend other than c10d and static, and for an endpoint that
            contradicts other flags
    """
    backend, endpoint = given.rdzv_backend, given.rdzv_endpoint
    if backend is not None and backend not in _BACKENDS:
        raise ValueError(
            f"--rdzv-backend {backend} is not supported: nodes meet at a store on node 0, as "
            f"with {' and '.join(_BACKENDS)}"
        )
    _read_settings(given)
    _require_seconds(given.monitor_interval)
    if endpoint is None:
        return
    host, colon, port = endpoint.rpartition(":")
    if not colon or endpoint.endswith("]"):
        host, port = endpoint, _ENDPOINT_PORT
    host = host.strip("[]")
    if not host:
        raise ValueError(f"--rdzv-endpoint is {endpoint!r}; expected HOST:PORT")
    for flag, name, meant in (
        ("--master-addr", "master_addr", host),
        ("--master-port", "master_port", port),
    ):
        if getattr(given, name) not in (None, meant):
            raise ValueError(
                f"--rdzv-endpoint {endpoint} contradicts {flag} {getattr(given, name)}: give one"
            )
        setattr(given, name, meant)


def _read_settings(given: argparse.Namespace) -> None:
    """Set timeouts from --rdzv-conf, except for timeouts whose own option was given."""
    for setting in filter(None, (given.rdzv_conf or "").split(",")):
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or not (name in _CONF or name in _CONF_WITHOUT_MEANING):
            known = ", ".join(sorted({*_CONF, *_CONF_WITHOUT_MEANING}))
            raise ValueError(f"--rdzv-conf {setting!r}: expected NAME=VALUE; known: {known}")
        option = _CONF.get(name)
        if option is not None and getattr(given, option) is None:
            setattr(given, option, value)


def _require_seconds(text: str | None) -> None:
    try:
        is_valid = text is None or float(text) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError(f"--monitor-interval is {text!r}; expected seconds, such as 0.1")
