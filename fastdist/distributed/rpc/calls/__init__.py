"""Calls: sent and waited for here, or received, run and answered here.

client.py       sends calls: on a lane of the caller's own, or through a Future; retries calls that
                may run twice
outgoing.py     one call under way: how it is packed, and how it ends, in a Future or in the thread
                that waits for it
serving.py      receives calls: which thread takes a request, where it runs, how it is answered
interrupted.py  calls whose caller was interrupted, by Ctrl-C for example
"""

from __future__ import annotations
