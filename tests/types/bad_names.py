"""Misspelt names are errors, in every public module."""

from __future__ import annotations

import fastdist as torch
from fastdist import nn, optim
from fastdist.distributed import rpc

torch.rnadn(2)  # error: rnadn
torch.Tensr  # error: Tensr
torch.float33  # error: float33
torch.randn(2).itm()  # error: itm
torch.randn(2).ad_(1)  # error: ad_
nn.Liner(2, 2)  # error: Liner
nn.functional.reluu(torch.randn(2))  # error: reluu
nn.modules.Convv2d  # error: Convv2d
nn.init.xavier_  # error: xavier_
optim.Addam  # error: Addam
optim.lr_scheduler.StepLr  # error: StepLr
torch.utils.data.DataLoder  # error: DataLoder
torch.autograd.gradd  # error: gradd
torch.cuda.is_availible()  # error: is_availible
torch.special.expitt  # error: expitt
torch.distributed.rcp  # error: rcp
torch.multiprocessing.spwan  # error: spwan
torch.linlag  # error: linlag
rpc.rpc_snyc  # error: rpc_snyc
torch.max(torch.randn(2), 0).indexes  # error: indexes
