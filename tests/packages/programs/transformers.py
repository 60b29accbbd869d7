"""Train a small GPT-2 of transformers for three steps, and generate greedily with its cache."""

import torch
from data import fill, report
from transformers import GPT2Config, GPT2LMHeadModel

config = GPT2Config(
    vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=49
)
config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
model = fill(GPT2LMHeadModel(config))
ids = torch.arange(24).reshape(2, 12) * 7 % 50
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = model(ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
model.eval()
made = model.generate(ids[:, :4], max_new_tokens=6, do_sample=False, pad_token_id=0)
report(losses=losses, made=made, logits=model(ids).logits[:, -1, :5])
