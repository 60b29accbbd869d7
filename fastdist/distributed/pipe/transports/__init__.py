"""The ways a message can take, each a file; they differ in addresses, not in what they promise."""

from __future__ import annotations
