"""Where PyTorch's programs look for RemoteModule: api.remote_module."""

from __future__ import annotations
