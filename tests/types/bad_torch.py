"""Names that fastdist does not have are also errors if it is imported as torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F

x = torch.rnadn(2)  # error: rnadn
y = F.rleu(torch.ones(2))  # error: rleu
z: str = torch.ones(2)  # error: torch.ones(2)
