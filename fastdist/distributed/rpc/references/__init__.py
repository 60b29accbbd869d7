"""References to values that stay on their owner (RRefs), and their states on holder and owner.

context.py  all references that one worker creates, owns or uses; how references are sent in
            messages (Note [The life of a reference])
held.py     one reference to a value of another worker, as a table of states (Note [What a holder
            owes])
rref.py     the user's RRef, and `rref.rpc_sync().method(x)`
kept.py     one value on its owner, as a table of states (Note [What an owner counts])
owned.py    the values that this worker owns
forks.py    references that are on their way to other workers
"""

from __future__ import annotations
