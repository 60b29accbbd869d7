"""Measurements of running programs: time ranges, memory, and the user code that causes them.

`time_ranges.py` records named ranges of time per thread while a `Recording` is open.
`memory_meter.py` counts bytes, `module_path.py` names the running module, `python_stack.py` the
user's frames. Hot paths check one flag, so a program that nobody profiles pays one attribute. The
package `profiler` reads the records and gives them PyTorch's form. `notebook.py` makes the HTML by
which reports show themselves in notebooks.
"""
