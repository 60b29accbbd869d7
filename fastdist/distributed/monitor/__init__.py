"""Metrics of a running worker: its calls, collectives, passes, memory and waits.

reading.py     get_metrics(): one reading of this process
exposition.py  the reading in Prometheus's format (package prometheus_client)
http_server.py a small HTTP server for monitoring systems: /metrics and /healthz
answers.py     a socket file on which the launcher reads metrics for `fastdist top`
listener.py    the listening socket, and the thread of both servers
beginning.py   starts both servers with RPC or a process group if a variable requests it

Nothing here runs on a thread of the program: each server has a thread that sleeps until a request
arrives. A reading holds locks only while it copies counts. It contains no secrets: no values of
calls or tensors, no addresses, no environment variables.
"""

from __future__ import annotations

from ...core.missing import show_public
from .beginning import begin
from .reading import get_metrics

__all__ = ["begin", "get_metrics"]

show_public(__name__)
