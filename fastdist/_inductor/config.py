"""Settings of PyTorch's graph compiler: programs may set them, and they have no effect."""

from __future__ import annotations

from ..core.settings_patch import patch_of

aggressive_fusion = False
allow_buffer_reuse = True
conv_1x1_as_mm = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
epilogue_fusion = True
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = True
max_autotune = False
max_autotune_gemm = False
shape_padding = True
use_mixed_mm = False

patch = patch_of(__name__)
