"""Fixtures of this folder: one worker with a fake agent."""

from __future__ import annotations

from tests.distributed.autograd.fake_agent import agent as agent
