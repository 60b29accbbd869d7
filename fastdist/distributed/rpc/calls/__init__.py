"""Calls that this worker makes and waits for, and calls that it receives, runs and answers.

client.py       sends calls, on a lane that the caller borrows or through a Future; sends failed
                requests again if they may run twice
outgoing.py     one call under way: how it is packed, and how it ends, in a Future or in the waiting
                thread
serving.py      incoming requests: which threads receive and run them, and how they are answered
interrupted.py  finds calls whose caller was interrupted, for example by Ctrl-C
"""

from __future__ import annotations
