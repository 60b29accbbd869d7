"""PyTorch's path of RemoteModule: `distributed.nn.api.remote_module`."""

from __future__ import annotations
