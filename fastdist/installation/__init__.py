"""The distribution `torch` that `fastdist as-torch --install` adds to a Python environment.

Packages that need PyTorch declare a dependency on `torch`, so pip and uv look for a distribution of
that name. This package writes a small distribution with that name. Importing its module `torch`
gives fastdist. A constraint keeps installers from replacing the distribution.

- `environment.py`: the folders of this Python, and the reasons to refuse an installation.
- `distribution.py`: writes and removes the module, its metadata and its list of files.
- `pip_file.py`: adds and removes one value in a `pip.conf`, without touching other lines.
- `pip_settings.py`: the constraints that pip reads from files and from variables.
- `constraint.py`: the constraint file, and the variables that make pip and uv read it.
- `install.py`: both commands, which undo their steps after an error.
- `state.py`: a check whether the installed `torch` still exists, for a note at program start.

Note [Files outside RECORD] When pip removes or replaces `torch`, it removes the files that RECORD
lists. RECORD does not list the constraint file, because every pip command fails while `pip.conf`
names a missing file. If `torch` was replaced, the constraint file also shows that fastdist's
`torch` was installed here before.

The package imports only `as_torch`, `core` and `system`.
"""
