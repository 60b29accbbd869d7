"""Calls between workers: rpc_sync, rpc_async, remote, and what makes them arrive."""

from __future__ import annotations
