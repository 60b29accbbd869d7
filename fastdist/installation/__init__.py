"""The distribution `torch` that `fastdist as-torch --install` puts into a Python environment.

Packages that need PyTorch declare it, so pip and uv look for a distribution of that name. This
package writes a small one: its module `torch` is fastdist, and a constraint keeps installers from
replacing it.

- `environment.py`: the folders of this Python, and the reasons for which they are refused.
- `distribution.py`: the module, its metadata and its list of files, written and removed.
- `pip_file.py`: one value in a `pip.conf`, added and removed without touching other lines.
- `pip_settings.py`: the constraints that pip reads from files and from variables.
- `constraint.py`: the constraint file, and the variables that make pip and uv read it.
- `install.py`: both commands, which undo their steps where one fails.
- `state.py`: whether the installed `torch` is still there, for a note when a program starts.

Note [Files outside RECORD] pip removes the files that RECORD names when it removes or replaces
`torch`. The constraint file is not among them: pip fails in every command while `pip.conf` names a
file that does not exist. Its presence also shows later that `torch` was installed here and that
something replaced it.

The package imports `as_torch`, `core` and `system` alone.
"""
