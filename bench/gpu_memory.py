"""What of a GPU's memory is in use, as nvidia-smi counts it: for the benchmarks, before PyTorch is imported."""

import os
import subprocess


def used_bytes():
    """Of the first GPU that this process may see, by all processes."""
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", gpu]
    return int(subprocess.run(query, check=True, capture_output=True, text=True).stdout) * 2**20
