"""The tokens that transformers generates, the most probable one always: what `snug sample` is held to.

    python generate.py DIRECTORY 1,2,3 12     prints 12 tokens as JSON; exits 77 where transformers is not installed
"""
import json
import sys

try:
    import torch
    from transformers import AutoModelForCausalLM
except ImportError:
    sys.exit(77)


def main() -> None:
    directory, prompt, count = sys.argv[1:]
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.tensor([[int(word) for word in prompt.split(",")]])
    settings = {"max_new_tokens": int(count), "min_new_tokens": int(count), "do_sample": False, "pad_token_id": 0}
    # These configurations name no end of text, and transformers' defaults for it are tokens like others here.
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
    print(json.dumps(out[0, ids.shape[1]:].tolist()))


main()
