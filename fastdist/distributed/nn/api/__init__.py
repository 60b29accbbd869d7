"""The package of RemoteModule, as in PyTorch: `distributed.nn.api.remote_module`."""

from __future__ import annotations
