"""Process groups: the collectives of a job, from the call of a user down to the bytes.

transport.py    what carries the collectives of one group: the interface

`distributed_c10d.py`, next to this package, has the functions that programs call.
docs/glossary.md explains the terms.
"""

from __future__ import annotations
