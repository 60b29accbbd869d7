"""The basics for every package: dtypes, devices, errors, memory formats, versions, names.

The package imports no other package of fastdist. It also holds small helpers that all layers use:
messages for missing names, short reprs, warnings and tracebacks without fastdist's own frames,
generated code that debuggers show, and NumPy calls that check sizes.
"""
