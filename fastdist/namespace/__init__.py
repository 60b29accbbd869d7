"""The names that users type: each op as a function, as a Tensor method and as an operator.

`catalogue.py` imports the files of ops and `load.py` collects the names that they declare.
`names.py` lists aliases and missing names, `homes.py` the names that are imported on first use.
`attach.py` adds ops to Tensor; `functions.py`, `questions.py` and `by_element.py` add methods that
are not ops, such as `backward`. `stubs.py` writes the `.pyi` files for type checkers. The other
files are functions and constructors of `fastdist` itself. Dispatch and engine, which do not know
each other, meet here.

The terms are explained in docs/glossary.md.
"""
