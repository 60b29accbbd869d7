"""An invertible network of FrEIA: its Jacobian, inverse and gradients."""

import torch
from data import fill, random, report
from FrEIA.framework import SequenceINN
from FrEIA.modules import AllInOneBlock


def subnet(inputs: int, outputs: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 8), torch.nn.ReLU(), torch.nn.Linear(8, outputs)
    )


flow = SequenceINN(4)
for _ in range(2):
    flow.append(AllInOneBlock, subnet_constructor=subnet, permute_soft=False)
for block in flow.module_list:
    w = torch.eye(4)[[2, 0, 3, 1]]
    block.w_perm.data, block.w_perm_inv.data = w, w.T.contiguous()
fill(flow)
for block in flow.module_list:
    w = torch.eye(4)[[2, 0, 3, 1]]
    block.w_perm.data, block.w_perm_inv.data = w, w.T.contiguous()
x = random(5, 4)
z, jacobian = flow(x)
(z.square().sum() / 2 - jacobian.sum()).backward()
back, _ = flow(z, rev=True)
report(
    z=z,
    jacobian=jacobian,
    back=back,
    grads=[p.grad.abs().sum().item() for p in flow.parameters() if p.grad is not None],
)
