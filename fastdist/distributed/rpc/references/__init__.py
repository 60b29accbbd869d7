"""References to values that stay where they are (RRefs), and the accounts that both ends keep.

context.py  all references of one worker: those that it makes, owns and uses; how references travel
            in messages (Note [The life of a reference])
held.py     one reference to a value of another worker, as a table of states (Note [What a holder
            owes])
rref.py     what a user holds, and `rref.rpc_sync().method(x)`
kept.py     one value on its owner, as a table of states (Note [What an owner counts])
owned.py    the values that are kept here
forks.py    references on their way to other workers
"""

from __future__ import annotations
