"""fastdist: distributed automatic differentiation with PyTorch's names, on NumPy, Numba, CuPy and ZeroMQ."""

from __future__ import annotations

import os as _os

__version__ = "0.1.0"

# The kernels live in the top-level folder kernels/ and are imported as fastdist.kernels; a wheel holds them inside the
# package, an uninstalled or editable checkout has them beside it.
_beside = _os.path.dirname(_os.path.dirname(_os.path.abspath(__file__)))
if _os.path.isfile(_os.path.join(_beside, "kernels", "__init__.py")) and _beside not in __path__:
    # Appended last: only `kernels` is looked for there, for everything else the package itself comes first.
    __path__.append(_beside)
