"""The names that users type: every op as a function, as a Tensor method and as an operator.

`load.py` imports the catalogue and gathers the names, `names.py` lists what is not read off a
declaration (aliases, functions that are no methods ...), `attach.py` hangs the ops on Tensor, and
`functions.py`, `questions.py` and `by_element.py` what is no op, such as `backward`. `homes.py`
lists the names that are imported when they are first asked for. The other files are functions and
constructors of `fastdist` itself; `stubs.py` tells type checkers all that. Here dispatch and engine
meet, who know nothing of each other.
"""
