"""The names that users type: every op as a function, as a Tensor method and as an operator.

`catalogue.py` imports each file of ops, `load.py` gathers the names that they declare, `names.py`
lists what no declaration says (aliases, what is missing), `attach.py` hangs the ops on Tensor, and
`functions.py`, `questions.py` and `by_element.py` what is no op, such as `backward`. `homes.py`
lists the names that are imported when they are first asked for. The other files are functions and
constructors of `fastdist` itself; `stubs.py` tells type checkers all that. Here dispatch and engine
meet, who know nothing of each other.
"""
