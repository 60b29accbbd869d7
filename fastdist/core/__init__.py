"""The basics for all other packages: dtypes, devices, errors, memory formats, versions, names.

This package imports no other package of fastdist. It also holds small helpers for all layers: error
messages for missing names, short reprs, warnings and tracebacks without fastdist's own frames,
generated code with source lines for debuggers, and NumPy calls that check sizes.
"""
