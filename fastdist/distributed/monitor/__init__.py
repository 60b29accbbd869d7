"""Metrics of a running worker: its calls, collectives, passes, memory and waits.

reading.py     get_metrics(): one reading, that is, the present metrics of this process
exposition.py  a reading in Prometheus's format (package prometheus_client)
http_server.py a small HTTP server for monitoring systems: /metrics and /healthz
answers.py     the server of a socket file on which `fastdist top` reads metrics
listener.py    the base class of both servers: a listening socket, and the thread that accepts
beginning.py   starts the servers that environment variables request, at the start of RPC or of a
               process group

The servers do not use the program's threads: each has a thread that sleeps until a request arrives.
get_metrics() holds locks only while it copies counts. A reading contains no secrets: no values of
calls or tensors, no addresses, no environment variables.
"""

from __future__ import annotations

from ...core.missing import show_public
from .beginning import begin
from .reading import get_metrics

__all__ = ["begin", "get_metrics"]

show_public(__name__)
