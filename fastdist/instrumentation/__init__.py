"""Measurements of running programs: time ranges, memory, and the user code that causes them.

`time_ranges.py` records named ranges of time per thread while a `Recording` is open.
`memory_meter.py` counts bytes, `module_path.py` has the path of the running module, and
`python_stack.py` the user's frames. Hot paths check one flag, so without a profile they cost one
attribute access. The package `profiler` reads the records and converts them to PyTorch's form.
`notebook.py` makes the HTML of reports in notebooks.
"""
