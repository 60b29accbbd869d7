"""The catalogue: every op, declared once, a file per family.

A pointwise op is its scalar body and its partials; a structured op names a kernel and says its
derivatives with Tensor operations; a composite is a function of other ops, which differentiates by
itself. No file here imports a kernel or asks for a device. Importing the room declares nothing:
namespace/load.py imports the files.
"""
