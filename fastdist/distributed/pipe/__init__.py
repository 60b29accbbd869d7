"""The way of frames between two workers: lanes, the pipe that holds them, the transports below."""

from __future__ import annotations
