"""Measurements of running programs: time ranges, memory, and the user code that causes them.

`time_ranges.py` records named ranges of time per thread while a `Recording` is open.
`memory_meter.py` counts bytes, `module_path.py` has the path of the running module, and
`python_stack.py` lists the user's frames. Without a profile, a measurement on a hot path costs one
attribute access, because it only checks a flag. The package `profiler` reads the records and
converts them to PyTorch's form. `notebook.py` makes the HTML of reports in notebooks.
"""
