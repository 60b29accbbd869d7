"""Train a LoRA adapter of peft on a small GPT-2, and merge it."""

import torch
from data import fill, report
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

config = GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2)
config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
lora = LoraConfig(r=2, target_modules=["c_attn"], lora_dropout=0.0, fan_in_fan_out=True)
model = fill(get_peft_model(GPT2LMHeadModel(config), lora))
ids = torch.arange(16).reshape(2, 8) * 7 % 50
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
report(losses=losses, merged=model.merge_and_unload()(ids).logits[:, -1, :5])
