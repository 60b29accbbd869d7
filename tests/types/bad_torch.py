"""Names that fastdist does not have are errors under the name torch as well."""

from __future__ import annotations

import torch
import torch.nn.functional as F

x = torch.rnadn(2)  # error: rnadn
y = F.rleu(torch.ones(2))  # error: rleu
z: str = torch.ones(2)  # error: torch.ones(2)
