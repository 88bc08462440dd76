"""Opens a directory that Snug saved with transformers and compares logits.

    python3 tests/parity/open_saved.py DIR [--logits FILE] [--tolerance 1e-4]

FILE (default: DIR/logits.safetensors) holds `tokens` i32[B, T] and `logits` f32[B, T, V], as Snug computed them from the
same weights. Exit code: 0 they agree, 1 they do not, 77 torch or transformers is not installed (a skipped test).
"""

import argparse
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

SKIPPED = 77

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(SKIPPED)


def open_model(directory):
    config = transformers.AutoConfig.from_pretrained(directory)
    masked = any("MaskedLM" in name for name in config.architectures or [])
    auto = transformers.AutoModelForMaskedLM if masked else transformers.AutoModelForCausalLM
    model, loading = auto.from_pretrained(directory, output_loading_info=True)
    problems = {what: sorted(names) for what, names in loading.items() if names}
    return model.float().eval(), problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--logits", type=pathlib.Path, help="default: DIRECTORY/logits.safetensors")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="largest |difference| / largest |logit|")
    options = parser.parse_args()

    model, problems = open_model(options.directory)
    if problems:
        print(f"{options.directory}: transformers reports {problems}")
        return 1
    stored = load_file(options.logits or options.directory / "logits.safetensors")
    with torch.no_grad():
        logits = model(input_ids=stored["tokens"].long()).logits
    ours = stored["logits"].reshape(logits.shape)
    error = ((logits - ours).abs().max() / logits.abs().max()).item()
    agree = error <= options.tolerance  # false for nan too
    print(f"{type(model).__name__}: largest error {error:.1e} of the largest logit, "
          f"{'within' if agree else 'beyond'} {options.tolerance:.0e}")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
