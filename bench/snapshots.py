"""Memory snapshots that PyTorch itself writes, with what is true of them: for `snug inspect`, and for its tests.

    python3 bench/snapshots.py run --out DIR [CASE...]      on a machine with a GPU; a process for each case, side by side
    python3 bench/snapshots.py check build/snug DIR [CASE...] holds what `snug inspect` says to what was true

A case is CASE.pickle and CASE.json: the peak that PyTorch counted, the addresses of parameters, gradients and optimizer state,
and the peak again after a change (checkpointing, half the batch, a loss in parts). File names in snapshots are scrubbed: the
directories of this machine are not in them. Cases whose name begins with small are data of src/pytorch's tests.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import time
import traceback

HERE = os.path.abspath(__file__)


def small(family, **more):
    from transformers import GPT2Config, Qwen2Config
    if family == "gpt2":
        return GPT2Config(n_layer=2, n_embd=256, n_head=4, vocab_size=8192, n_positions=256, **more)
    return Qwen2Config(num_hidden_layers=2, hidden_size=256, intermediate_size=768, num_attention_heads=4, num_key_value_heads=2,
                       vocab_size=8192, max_position_embeddings=256, tie_word_embeddings=True, **more)


def qwen():
    from transformers import Qwen2Config
    return Qwen2Config(num_hidden_layers=24, hidden_size=896, intermediate_size=4864, num_attention_heads=14,
                       num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True, max_position_embeddings=2048)


def gpt2():
    from transformers import GPT2Config
    return GPT2Config()


def llama():
    from transformers import LlamaConfig
    return LlamaConfig(num_hidden_layers=14, hidden_size=1280, intermediate_size=3456, num_attention_heads=20,
                       num_key_value_heads=10, vocab_size=32000, tie_word_embeddings=False, max_position_embeddings=2048)


def neox():
    from transformers import GPTNeoXConfig
    return GPTNeoXConfig(num_hidden_layers=10, hidden_size=640, intermediate_size=2560, num_attention_heads=10, vocab_size=50304,
                         max_position_embeddings=1024)


def plain_model():
    """A model as a script has it: PyTorch's own encoder layers, an embedding made by hand, no transformers."""
    import torch
    from torch import nn

    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Parameter(torch.randn(10000, 512) * 0.02)
            self.layers = nn.ModuleList(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True) for _ in range(6))
            self.head = nn.Linear(512, 10000)

        def forward(self, ids):
            x = nn.functional.embedding(ids, self.embedding)
            for layer in self.layers:
                x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False) if self.checkpointing else layer(x)
            return self.head(x)

    return Plain()


CASES = {
    "qwen": dict(config=qwen, batch=4, seq=1024, autocast=True, remedies=True),
    "qwen_bf16": dict(config=qwen, batch=2, seq=1024, dtype="bfloat16", remedies=True),
    "gpt2": dict(config=gpt2, batch=4, seq=1024, remedies=True),
    "gpt2_cpp": dict(config=gpt2, batch=4, seq=1024, stacks="all", steps=3),
    "gpt2_late": dict(config=gpt2, batch=4, seq=1024, record_from=2, steps=4),
    "llama_accum": dict(config=llama, batch=4, seq=768, dtype="bfloat16", accum=2, fused=True, zero_after=True, remedies=True),
    "neox_fp32": dict(config=neox, batch=3, seq=640, zero_after=True, remedies=True),
    "plain_sgd": dict(plain=True, batch=32, seq=256, steps=5, remedies=True),
    "leak": dict(config=gpt2, batch=2, seq=512, leak="logits", steps=6),
    "oom": dict(config=gpt2, batch=4, seq=1024, fraction=0.08, grow=True, steps=20),
    "small_gpt2": dict(config=lambda: small("gpt2"), batch=4, seq=128, steps=3, remedies=True),
    "small_qwen": dict(config=lambda: small("qwen2"), batch=4, seq=128, steps=3, autocast=True, remedies=True),
    "small_cpp": dict(config=lambda: small("gpt2"), batch=4, seq=128, steps=2, stacks="all"),
    "small_bare": dict(config=lambda: small("gpt2"), batch=4, seq=128, steps=4, context=None),
    "small_leak": dict(config=lambda: small("gpt2"), batch=2, seq=64, steps=5, leak="hidden"),
    "small_oom": dict(config=lambda: small("gpt2"), batch=4, seq=128, steps=20, fraction=0.002, grow=True),
    "small_expandable": dict(config=lambda: small("gpt2"), batch=4, seq=128, steps=3, expandable=True),
}


def scrubbed(filename):
    for marker in ("site-packages/", "dist-packages/"):
        if marker in filename:
            return "/env/" + marker + filename.split(marker)[1]
    if filename == HERE:
        return "train.py"
    return os.path.basename(filename) if filename.startswith("/") else filename


def scrub(path):
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    seen = set()
    lists = [block.get("frames") for s in snapshot["segments"] for block in s["blocks"]]
    lists += [s.get("frames") for s in snapshot["segments"]]
    lists += [entry.get("frames") for trace in snapshot["device_traces"] for entry in trace]
    for frames in lists:
        for frame in frames or []:
            if id(frame) not in seen:
                seen.add(id(frame))
                frame["filename"] = scrubbed(frame["filename"])
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)


def pointers(tensors):
    return [[t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()] for t in tensors if t.is_cuda]


class Training:
    """A model from its configuration, random weights, AdamW, and the usual loop."""

    def __init__(self, case, batch, checkpointing=False, chunked=False):
        import torch
        from transformers import AutoModelForCausalLM
        self.torch, self.case, self.batch, self.chunked = torch, case, batch, chunked
        torch.manual_seed(1)
        self.kept = []
        if case.get("plain"):
            self.model = plain_model().cuda()
            self.model.checkpointing = checkpointing
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
            self.vocabulary = 10000
            return
        config = case["config"]()
        with torch.device("cuda"):
            self.model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, case.get("dtype", "float32")))
        self.model.train()
        if checkpointing:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))
        self.model.config.use_cache = False
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=case.get("fused"))
        self.vocabulary = config.vocab_size

    def loss(self, ids):
        if self.case.get("plain"):
            logits = self.model(ids)
            return self.torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
        if not self.chunked:
            output = self.model(input_ids=ids, labels=ids)
            if self.case.get("leak") == "logits":
                self.kept.append(output.logits)  # as one does to compute a metric at the end of an epoch
            return output.loss
        from torch.utils.checkpoint import checkpoint
        functional = self.torch.nn.functional
        body = self.model.base_model
        head = self.model.get_output_embeddings()
        hidden = body(input_ids=ids).last_hidden_state[:, :-1]
        targets = ids[:, 1:].contiguous()

        def part(h, t):
            logits = head(h).float()
            return functional.cross_entropy(logits.flatten(0, 1), t.flatten(), reduction="sum")

        parts = zip(hidden.chunk(8, dim=1), targets.chunk(8, dim=1))
        return sum(checkpoint(part, h, t, use_reentrant=False) for h, t in parts) / targets.numel()

    def step(self):
        if not self.case.get("zero_after"):
            self.optimizer.zero_grad()
        for _ in range(self.case.get("accum", 1)):
            ids = self.torch.randint(0, self.vocabulary, (self.batch, self.case["seq"]), device="cuda")
            with self.torch.autocast("cuda", dtype=self.torch.bfloat16, enabled=bool(self.case.get("autocast"))):
                loss = self.loss(ids)
            loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.gradients = pointers(p.grad for p in self.model.parameters() if p.grad is not None)
        self.optimizer.step()
        if self.case.get("zero_after"):
            self.optimizer.zero_grad()
        if self.case.get("leak") == "hidden":
            self.kept.append(self.torch.zeros(64, 1024, device="cuda"))
        return loss


def peak_after(case, **changes):
    import gc
    import torch
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    training = Training(case, changes.pop("batch", case["batch"]), **changes)
    for _ in range(3):
        training.step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    training.step()
    torch.cuda.synchronize()
    return dict(peak=torch.cuda.max_memory_allocated(), step_ms=1e3 * (time.perf_counter() - start))


def run_case(name, out):
    case = CASES[name]
    import torch
    if case.get("fraction"):
        torch.cuda.set_per_process_memory_fraction(case["fraction"])
    steps, record_from = case.get("steps", 3), case.get("record_from", 0)
    record = dict(context=case.get("context", "all"), stacks=case.get("stacks", "python"))
    if record_from == 0:
        torch.cuda.memory._record_memory_history(**record)
    training = Training(case, case["batch"])
    truth = dict(case=name, torch=torch.__version__, batch=case["batch"], seq=case["seq"], gradients_by_step=[])
    for step in range(steps):
        if record_from == step and step > 0:
            torch.cuda.memory._record_memory_history(**record)
            torch.cuda.reset_peak_memory_stats()
        try:
            training.step()
        except torch.cuda.OutOfMemoryError as error:
            truth["oom"] = dict(step=step, text=str(error), traceback=scrub_text(traceback.format_exc()),
                                allocated=torch.cuda.memory_allocated(), reserved=torch.cuda.memory_reserved())
            break
        truth["gradients_by_step"].append(training.gradients)
        if case.get("grow"):
            training.batch += case["batch"]
    torch.cuda.synchronize()
    state = training.optimizer.state
    truth.update(
        max_allocated=torch.cuda.max_memory_allocated(), max_reserved=torch.cuda.max_memory_reserved(),
        allocated=torch.cuda.memory_allocated(), reserved=torch.cuda.memory_reserved(),
        parameters=pointers(training.model.parameters()), buffers=pointers(training.model.buffers()),
        gradients=pointers(p.grad for p in training.model.parameters() if p.grad is not None),
        state=pointers(v for s in state.values() for v in s.values() if torch.is_tensor(v)))
    start = time.perf_counter()
    path = os.path.join(out, name + ".pickle")
    torch.cuda.memory._dump_snapshot(path)
    truth["dump_seconds"] = time.perf_counter() - start
    torch.cuda.memory._record_memory_history(enabled=None)
    scrub(path)
    if not case.get("plain"):
        training.model.config.to_json_file(os.path.join(out, name + ".config.json"))
    save(truth, out)
    del training, state
    if case.get("remedies"):
        truth["remedies"] = {}
        for remedy, changes in dict(none={}, checkpointing=dict(checkpointing=True), chunked=dict(chunked=True),
                                    half_batch=dict(batch=case["batch"] // 2)).items():
            if case.get("plain") and remedy == "chunked":
                continue
            truth["remedies"][remedy] = peak_after(case, **changes)
            save(truth, out)


def scrub_text(text):
    return "".join(line.replace(os.path.dirname(HERE), ".") if "packages/" not in line else
                   '  File "/env/' + line[line.index("packages/") - 5:] for line in text.splitlines(keepends=True))


def save(truth, out):
    with open(os.path.join(out, truth["case"] + ".json"), "w") as file:
        json.dump(truth, file)


def run_all(names, out, limit):
    os.makedirs(out, exist_ok=True)
    processes = {}
    for name in names:
        environment = dict(os.environ)
        if CASES[name].get("expandable"):
            environment["PYTORCH_CUDA_ALLOC_CONF"] = environment["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        log = open(os.path.join(out, name + ".log"), "w")
        processes[name] = subprocess.Popen([sys.executable, HERE, "case", name, "--out", out], env=environment, stdout=log,
                                           stderr=log)
    end = time.time() + limit
    for name, process in processes.items():
        try:
            code = process.wait(max(1, end - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            code = "killed at the time limit"
        path = os.path.join(out, name + ".pickle")
        print(name, code, os.path.getsize(path) if os.path.exists(path) else "no snapshot", flush=True)


def inspected(snug, out, name, *more):
    words = [snug, "inspect", os.path.join(out, name + ".pickle"), "--json", *more]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def share_right(blocks, owner, true):
    """Of the bytes that PyTorch says are `owner`'s, those that snug says are, too; and the other way round."""
    known = dict((address, size) for address, size in true)
    mine = {b["address"]: b["bytes"] for b in blocks if b["owner"] == owner}
    live = {b["address"] for b in blocks}
    wanted = sum(size for address, size in known.items() if address in live)
    found = sum(size for address, size in known.items() if address in mine)
    claimed = sum(mine.values())
    right = sum(size for address, size in mine.items() if address in known)
    return found / wanted if wanted else 1.0, right / claimed if claimed else 1.0


def check(snug, out, names):
    print(f"{'case':18}{'peak':>9}{'PyTorch':>10}{'known':>8}  parameters  gradients   state  (recall / precision at the end)")
    for name in names:
        with open(os.path.join(out, name + ".json")) as file:
            truth = json.load(file)
        report = inspected(snug, out, name, "--blocks")
        device = report["devices"][0]
        end = [b for b in device["blocks"] if b["at_end"]]
        shares = [share_right(end, owner, truth[key]) for owner, key in
                  (("parameters", "parameters"), ("gradients", "gradients"), ("optimizer", "state"))]
        text = "  ".join(f"{100 * recall:5.1f}/{100 * precision:5.1f}" for recall, precision in shares)
        ratio = device["peak"]["allocated_bytes"] / truth["max_allocated"]
        print(f"{name:18}{device['peak']['allocated_bytes'] / 2**20:9.1f}{100 * ratio:9.2f}%{100 * device['peak']['known']:7.1f}%  {text}")
        measured = truth.get("remedies", {})
        said = {r["name"]: r for r in device["remedies"]}
        for remedy, key in (("checkpointing", "checkpointing"), ("chunked loss", "chunked"), ("half the batch", "half_batch")):
            if key in measured and remedy in said:
                base, new = measured["none"]["peak"], measured[key]["peak"]
                print(f"    {remedy:16} said {said[remedy]['saves_bytes'] / 2**20:9.1f} MiB, measured {(base - new) / 2**20:9.1f}"
                      f" MiB; peak said {said[remedy]['peak_bytes'] / 2**20:9.1f}, measured {new / 2**20:9.1f}"
                      f" ({100 * said[remedy]['peak_bytes'] / new - 100:+.1f} %)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "case", "check"])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--out", default="snapshots")
    parser.add_argument("--limit", type=float, default=120)
    options = parser.parse_intermixed_args()
    if options.what == "case":
        run_case(options.words[0], options.out)
    elif options.what == "run":
        run_all(options.words or list(CASES), options.out, options.limit)
    else:
        snug, out, *names = options.words
        check(snug, out, names or [n for n in CASES if os.path.exists(os.path.join(out, n + ".json"))])


if __name__ == "__main__":
    main()
