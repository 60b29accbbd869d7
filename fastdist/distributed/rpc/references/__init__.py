"""References to values that stay where they are (RRefs), and the accounts that both ends keep.

context.py  all references of one worker: those that it makes, owns and uses; how references travel
            in messages (Note [The life of a reference])
rref.py     what a user holds, and `rref.rpc_sync().method(x)`
owned.py    the values that are kept here
forks.py    references on their way to other workers
"""

from __future__ import annotations
