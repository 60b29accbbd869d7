"""References to values that stay at their owner (RRefs), and the counts that both ends keep.

context.py  all references of one worker: those that it creates, owns and uses; how references are
            sent in messages (Note [The life of a reference])
held.py     one reference to a value of another worker, as a table of states (Note [What a holder
            owes])
rref.py     the user's RRef, and `rref.rpc_sync().method(x)`
kept.py     one value on its owner, as a table of states (Note [What an owner counts])
owned.py    the values that this worker owns
forks.py    references that are on their way to other workers
"""

from __future__ import annotations
