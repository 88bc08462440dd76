"""Makes the stored reference values of adapters: what PEFT computes with the tiny models of tests/parity.

    python3 tests/parity/lora.py            # all of them; needs PyTorch, transformers and peft

For each base this writes, under tests/parity/lora_<family>/, an adapter as PEFT saves it and reference.safetensors, as
README.md says, with gradients of the adapter alone and `merged.logits`, what the model gives when the adapter is merged.
"""

import json
import sys

import peft
import torch
from peft.utils import get_peft_model_state_dict
from safetensors.torch import load_file, save_file

import reference as r

ADAPTERS = {
    "llama": dict(r=4, lora_alpha=10, target_modules=["q_proj", "v_proj", "down_proj", "o_proj"]),
    "gpt2": dict(r=3, lora_alpha=6, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True),
    "gpt_neox": dict(r=3, lora_alpha=9, target_modules=["query_key_value", "dense_h_to_4h"]),
    "phi3": dict(r=5, lora_alpha=5, target_modules=["qkv_proj", "gate_up_proj", "down_proj"]),
}


def build(family, adapter, dtype):
    here = r.HERE / family
    config = json.loads((here / "config.json").read_text())
    model = r.build(config, load_file(here / "model.safetensors"), dtype)
    settings = peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, bias="none", **ADAPTERS[family])
    with r.arithmetic(dtype):
        model = peft.get_peft_model(model, settings, autocast_adapter_dtype=False).to(dtype)
        if adapter is not None:
            peft.set_peft_model_state_dict(model, adapter)
    return model.train()


def trained(model):
    """By the names that PEFT's file has."""
    names = {name.replace(".default.", "."): p for name, p in model.named_parameters() if p.requires_grad}
    assert set(names) == set(get_peft_model_state_dict(model)), names.keys()
    return names


def gradients(family, adapter, tokens, targets, dtype):
    model = build(family, adapter, dtype)
    with r.arithmetic(dtype):
        logits, loss = r.forward(model, tokens, targets)
        loss.backward()
        grads = {name: p.grad for name, p in trained(model).items()}
        merged, _ = r.forward(model.merge_and_unload(), tokens, targets)
    return loss.item(), logits.detach(), grads, merged.detach()


def curve(family, adapter, tokens, targets, dtype):
    model = build(family, adapter, dtype)
    parameters = list(trained(model).values())
    optimizer = torch.optim.AdamW(parameters, weight_decay=r.WEIGHT_DECAY, **r.ADAMW)
    losses, norms = [], []
    with r.arithmetic(dtype):
        for x, y in zip(tokens, targets):
            optimizer.zero_grad(set_to_none=True)
            _, loss = r.forward(model, x, y)
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(parameters, r.CLIP).item())
            optimizer.step()
            losses.append(loss.item())
    return torch.tensor(losses), torch.tensor(norms)


def make(family):
    stored = load_file(r.HERE / family / "reference.safetensors")
    generator = torch.Generator().manual_seed(r.SEED + 1)
    model = build(family, None, torch.float32)
    # B too: zeros would hide mistakes.
    adapter = {name: torch.randn(p.shape, generator=generator) * 0.2 for name, p in trained(model).items()}
    out = r.HERE / f"lora_{family}"
    out.mkdir(exist_ok=True)
    model.base_model.model.name_or_path = model.peft_config["default"].base_model_name_or_path = f"tests/parity/{family}"
    peft.set_peft_model_state_dict(model, adapter)
    model.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)

    tokens, targets = stored["tokens"].long(), stored["targets"].long()
    curve_tokens, curve_targets = stored["curve.tokens"].long(), stored["curve.targets"].long()
    loss, logits, grads, merged = gradients(family, adapter, tokens, targets, torch.float64)
    losses, norms = curve(family, adapter, curve_tokens, curve_targets, torch.float32)
    losses64, _ = curve(family, adapter, curve_tokens, curve_targets, torch.float64)
    save_file({
        "tokens": stored["tokens"], "targets": stored["targets"],
        "curve.tokens": stored["curve.tokens"], "curve.targets": stored["curve.targets"],
        "loss": torch.tensor([loss]), "logits": logits.float().contiguous(), "merged.logits": merged.float().contiguous(),
        "curve.losses": losses.float(), "curve.norms": norms.float(),
    } | {f"grad.{name}": g.float().contiguous() for name, g in grads.items()}, out / "reference.safetensors")
    print(f"{family:8} loss {loss:.6f}, curve {losses[0]:.3f} -> {losses[-1]:.3f}, off a float64 curve by "
          f"{((losses - losses64).abs() / losses64).max():.1e}, merged logits off by {(merged - logits).abs().max():.1e}")


if __name__ == "__main__":
    torch.manual_seed(r.SEED)
    torch.set_num_threads(1)
    for name in sys.argv[1:] or ADAPTERS:
        make(name)
