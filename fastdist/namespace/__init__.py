"""The public names: each op as a function, as a Tensor method and as an operator.

`catalogue.py` imports each file of ops, and `load.py` collects the names that these files declare.
`names.py` has names without a declaration (aliases, missing names). `attach.py` attaches the ops to
Tensor, and `functions.py`, `questions.py` and `by_element.py` attach methods that are not ops, such
as `backward`. `homes.py` lists the names that are imported at first use. The other files define
functions and constructors of `fastdist`. `stubs.py` writes stubs with all of these names for type
checkers. This package joins dispatch and engine, which do not import each other.

The terms are explained in docs/glossary.md.
"""
