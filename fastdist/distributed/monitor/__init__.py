"""Metrics of a running worker: its calls, collectives, passes, memory and waits.

reading.py     get_metrics(): one reading of this process
exposition.py  the reading in Prometheus's format (package prometheus_client)
http_server.py a small HTTP server for strangers: /metrics and /healthz
answers.py     a socket file by which the launcher reads it, for `fastdist top`
listener.py    the listening socket and the thread of both
beginning.py   starts both when RPC or a process group starts, where the environment wants them

Nothing here runs on a thread of the program: each reader has a thread that sleeps until somebody
asks. A reading holds locks only while it copies counts. Nothing secret is shown: no
values of calls or tensors, no addresses, no variables of the environment.
"""

from __future__ import annotations

from ...core.missing import show_public
from .beginning import begin
from .reading import get_metrics

__all__ = ["begin", "get_metrics"]

show_public(__name__)
