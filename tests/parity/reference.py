"""Makes the stored reference values of tests/parity: what PyTorch and transformers compute for tiny models.

    python3 tests/parity/reference.py            # all families
    python3 tests/parity/reference.py llama bert # only these

For each family this writes, under tests/parity/<family>/:
    config.json            as in a transformers directory
    model.safetensors      the weights, every one of them random (norms and biases too)
    reference.safetensors  tokens, targets, loss, logits, grad.<checkpoint name>, curve.{tokens,targets,losses,norms}

Loss, logits and gradients are computed in float64 and rounded to float32 once, at the end, so that a comparison measures
one implementation's rounding and not the sum of two. The curve is PyTorch's own float32. README.md has the details.
"""

import contextlib
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from torch.overrides import TorchFunctionMode

HERE = pathlib.Path(__file__).parent
SEED = 20250729
STEPS = 20
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
WEIGHT_DECAY = 0.1  # on tensors of two dimensions and more; 0 on norms and biases
CLIP = 1.0

# Dimensions are odd on purpose: nothing here is a multiple of a vector register or of a tile. B and T are the batch's.
FAMILIES = {
    "gpt2": dict(B=3, T=29, config=dict(
        architectures=["GPT2LMHeadModel"], model_type="gpt2", vocab_size=101, n_positions=33, n_embd=60, n_head=5,
        n_layer=2, activation_function="gelu_new", layer_norm_epsilon=1e-5, embd_pdrop=0.0, attn_pdrop=0.0,
        resid_pdrop=0.0, bos_token_id=0, eos_token_id=0, tie_word_embeddings=True)),
    "llama": dict(B=3, T=23, config=dict(
        architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=97, max_position_embeddings=31,
        hidden_size=72, intermediate_size=100, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        hidden_act="silu", rms_norm_eps=1e-5, rope_theta=500.0, attention_bias=False, mlp_bias=False,
        tie_word_embeddings=False)),
    "qwen2": dict(B=3, T=19, config=dict(
        architectures=["Qwen2ForCausalLM"], model_type="qwen2", vocab_size=89, max_position_embeddings=27,
        hidden_size=56, intermediate_size=90, num_hidden_layers=2, num_attention_heads=7, num_key_value_heads=1,
        hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000.0, attention_dropout=0.0, use_sliding_window=False,
        tie_word_embeddings=True)),
    # head_dim is not hidden_size / heads, and the rotary base is where transformers 5 writes it.
    "mistral": dict(B=3, T=21, config=dict(
        architectures=["MistralForCausalLM"], model_type="mistral", vocab_size=83, max_position_embeddings=25,
        hidden_size=44, intermediate_size=66, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=14, hidden_act="silu", rms_norm_eps=1e-5, attention_dropout=0.0, sliding_window=None,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0), tie_word_embeddings=False)),
    "bert": dict(B=3, T=17, config=dict(
        architectures=["BertForMaskedLM"], model_type="bert", vocab_size=79, max_position_embeddings=20,
        type_vocab_size=2, hidden_size=48, intermediate_size=84, num_hidden_layers=2, num_attention_heads=4,
        hidden_act="gelu", layer_norm_eps=1e-12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        pad_token_id=0, tie_word_embeddings=True)),
    # The same with a window that is shorter than the sequence.
    "mistral_window": dict(B=2, T=21, config=dict(
        architectures=["MistralForCausalLM"], model_type="mistral", vocab_size=83, max_position_embeddings=25,
        hidden_size=44, intermediate_size=66, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=14, hidden_act="silu", rms_norm_eps=1e-5, attention_dropout=0.0, sliding_window=7,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0), tie_word_embeddings=False)),
    # What SmolLM2 and Llama 3.2 add to llama's: a tied head, stretched frequencies, head_dim named.
    "llama3": dict(B=2, T=23, config=dict(
        architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=95, max_position_embeddings=62,
        hidden_size=54, intermediate_size=90, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
        head_dim=18, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=5000.0, attention_bias=False, mlp_bias=False,
        rope_scaling=dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=3.0,
                          original_max_position_embeddings=15), tie_word_embeddings=True)),
    "qwen3": dict(B=2, T=22, config=dict(
        architectures=["Qwen3ForCausalLM"], model_type="qwen3", vocab_size=87, max_position_embeddings=30,
        hidden_size=54, intermediate_size=70, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        head_dim=14, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000.0, attention_bias=False,
        attention_dropout=0.0, use_sliding_window=False, tie_word_embeddings=True)),
    "olmo2": dict(B=2, T=21, config=dict(
        architectures=["Olmo2ForCausalLM"], model_type="olmo2", vocab_size=91, max_position_embeddings=30,
        hidden_size=60, intermediate_size=82, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
        hidden_act="silu", rms_norm_eps=1e-6, rope_theta=5000.0, attention_bias=False, attention_dropout=0.0,
        pad_token_id=5, tie_word_embeddings=False)),
    "phi3": dict(B=2, T=23, config=dict(
        architectures=["Phi3ForCausalLM"], model_type="phi3", vocab_size=85, max_position_embeddings=30,
        original_max_position_embeddings=30, hidden_size=60, intermediate_size=76, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=3, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0,
        rope_scaling=None, embd_pdrop=0.0, resid_pdrop=0.0, attention_dropout=0.0, attention_bias=False,
        sliding_window=11, pad_token_id=3, tie_word_embeddings=False)),
    "gemma3": dict(B=2, T=21, config=dict(
        architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", vocab_size=93, max_position_embeddings=30,
        hidden_size=42, intermediate_size=78, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
        head_dim=10, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6, query_pre_attn_scalar=18,
        sliding_window=6, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_theta=5000.0, rope_local_base_freq=100.0, rope_scaling=dict(rope_type="linear", factor=2.0),
        attention_bias=False, attention_dropout=0.0, attn_logit_softcapping=None, final_logit_softcapping=None,
        use_bidirectional_attention=False, pad_token_id=0, tie_word_embeddings=True)),
    "stablelm": dict(B=2, T=22, config=dict(
        architectures=["StableLmForCausalLM"], model_type="stablelm", vocab_size=81, max_position_embeddings=30,
        hidden_size=60, intermediate_size=74, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
        hidden_act="silu", layer_norm_eps=1e-5, rope_theta=10000.0, partial_rotary_factor=0.4, use_qkv_bias=True,
        qk_layernorm=False, use_parallel_residual=False, hidden_dropout=0.0, attention_dropout=0.0,
        tie_word_embeddings=False)),
    # Attention and MLP read one norm.
    "stablelm_parallel": dict(B=2, T=19, config=dict(
        architectures=["StableLmForCausalLM"], model_type="stablelm", vocab_size=77, max_position_embeddings=30,
        hidden_size=44, intermediate_size=58, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        hidden_act="silu", layer_norm_eps=1e-5, use_qkv_bias=False, qk_layernorm=False, use_parallel_residual=True,
        hidden_dropout=0.0, attention_dropout=0.0, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=0.3))),
    "opt": dict(B=2, T=21, config=dict(
        architectures=["OPTForCausalLM"], model_type="opt", vocab_size=83, max_position_embeddings=30, hidden_size=54,
        ffn_dim=70, num_hidden_layers=2, num_attention_heads=6, activation_function="relu", do_layer_norm_before=True,
        word_embed_proj_dim=54, dropout=0.0, attention_dropout=0.0, layerdrop=0.0, init_std=0.02, pad_token_id=1,
        enable_bias=True, layer_norm_elementwise_affine=True, tie_word_embeddings=True)),
    # Here each has a norm of its own, and the checkpoint packs q, k and v by head.
    "gpt_neox": dict(B=2, T=23, config=dict(
        architectures=["GPTNeoXForCausalLM"], model_type="gpt_neox", vocab_size=91, max_position_embeddings=30,
        hidden_size=60, intermediate_size=86, num_hidden_layers=2, num_attention_heads=5, hidden_act="gelu",
        layer_norm_eps=1e-5, rotary_pct=0.35, rotary_emb_base=5000, use_parallel_residual=True, attention_bias=True,
        hidden_dropout=0.0, attention_dropout=0.0, tie_word_embeddings=False)),
}


class Float32MeansFloat64(TorchFunctionMode):
    """transformers computes norms, rotary angles and softmax in float32 whatever the model's dtype; under this mode
    those places compute in float64 like the rest."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def widen(x):
            return torch.float64 if x is torch.float32 else x

        if func is torch.Tensor.float:
            func = torch.Tensor.double
        return func(*map(widen, args), **{k: widen(v) for k, v in (kwargs or {}).items()})


@contextlib.contextmanager
def arithmetic(dtype):
    torch.set_default_dtype(dtype)
    try:
        with Float32MeansFloat64() if dtype is torch.float64 else contextlib.nullcontext():
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def build(config, weights, dtype):
    """A transformers model in `dtype` that holds `weights` (None: freshly initialised)."""
    cls = getattr(transformers, config["architectures"][0])
    with arithmetic(dtype):
        model = cls._from_config(transformers.AutoConfig.for_model(**config), attn_implementation="sdpa")
        model = model.to(dtype).train()
        if weights is not None:
            parameters = {in_file(model, name): name for name, _ in model.named_parameters()}
            missing, unknown = model.load_state_dict({parameters[n]: w for n, w in weights.items()}, strict=False)
            assert not unknown and not {in_file(model, n) for n in missing} & set(checkpoint_names(model)), (missing, unknown)
    return model


def in_file(model, name):
    """What a parameter is called in a saved directory: GPT-NeoX's head keeps its old name there."""
    return name.replace("lm_head.", "embed_out.") if type(model).__name__ == "GPTNeoXForCausalLM" else name


def checkpoint_names(model):
    """Parameters by the names that a saved directory has: tied ones once."""
    return {in_file(model, name): p for name, p in model.named_parameters(remove_duplicate=True) if p.requires_grad}


def random_weights(model, generator):
    """Every tensor random, scaled so that gradients reach all of them: defaults (ones, zeros) would hide mistakes."""
    out = {}
    for name, p in checkpoint_names(model).items():
        noise = torch.randn(p.shape, generator=generator)
        if p.ndim >= 2:
            out[name] = noise * 0.15
        elif name.endswith("bias"):
            out[name] = noise * 0.1
        else:
            out[name] = 1 + noise * 0.2
    return out


def random_batches(n, B, T, V, causal, generator):
    """n batches (tokens, targets), each [B, T]. Text is a noisy chain, so that a model has something to learn. A causal
    model's targets are the next tokens; a masked one's are the tokens before a fifth of them was replaced."""
    text = torch.empty(n, B, T + 1, dtype=torch.int64)
    text[..., 0] = torch.randint(V, (n, B), generator=generator)
    for t in range(T):
        noise = torch.randint(V, (n, B), generator=generator)
        keep = torch.rand(n, B, generator=generator) < 0.8
        text[..., t + 1] = torch.where(keep, (5 * text[..., t] + 3) % V, noise)
    if causal:
        return text[..., :-1].contiguous(), text[..., 1:].contiguous()
    whole = text[..., :-1].contiguous()
    masked = torch.rand(whole.shape, generator=generator) < 0.2
    return torch.where(masked, torch.randint(V, whole.shape, generator=generator), whole), whole


def forward(model, tokens, targets):
    """Logits and the mean cross-entropy over all B*T targets, which are already shifted."""
    logits = model(input_ids=tokens).logits
    return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def gradients(config, weights, tokens, targets, dtype):
    model = build(config, weights, dtype)
    with arithmetic(dtype):
        logits, loss = forward(model, tokens, targets)
        loss.backward()
    assert logits.dtype == dtype
    return loss.item(), logits.detach(), {name: p.grad for name, p in checkpoint_names(model).items()}


def curve(config, weights, tokens, targets, dtype):
    """Losses and gradient norms (before clipping) of STEPS AdamW steps, each on its own batch."""
    model = build(config, weights, dtype)
    parameters = checkpoint_names(model).values()
    optimizer = torch.optim.AdamW([
        dict(params=[p for p in parameters if p.ndim >= 2], weight_decay=WEIGHT_DECAY),
        dict(params=[p for p in parameters if p.ndim < 2], weight_decay=0.0)], **ADAMW)
    losses, norms = [], []
    with arithmetic(dtype):
        for x, y in zip(tokens, targets):
            optimizer.zero_grad(set_to_none=True)
            _, loss = forward(model, x, y)
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(parameters, CLIP).item())
            optimizer.step()
            losses.append(loss.item())
    return torch.tensor(losses), torch.tensor(norms)


def worst_gradient(grads, reference):
    """The largest relative error among tensors. The floor is that of the tests: with the bound at 1e-5, an error below
    1e-7 of the global norm always passes, because some gradients (a key bias under softmax) are zero but for rounding."""
    total = torch.sqrt(sum(g.square().sum() for g in reference.values()))
    return max(((grads[n].double() - g).norm() / torch.maximum(g.norm(), 1e-2 * total)).item()
               for n, g in reference.items())


def make(family, spec):
    config, B, T = spec["config"], spec["B"], spec["T"]
    generator = torch.Generator().manual_seed(SEED)
    weights = random_weights(build(config, None, torch.float32), generator)
    causal = "MaskedLM" not in config["architectures"][0]
    tokens, targets = random_batches(1 + STEPS, B, T, config["vocab_size"], causal, generator)

    loss, logits, grads = gradients(config, weights, tokens[0], targets[0], torch.float64)
    loss32, _, grads32 = gradients(config, weights, tokens[0], targets[0], torch.float32)
    losses, norms = curve(config, weights, tokens[1:], targets[1:], torch.float32)
    losses64, _ = curve(config, weights, tokens[1:], targets[1:], torch.float64)

    out = HERE / family
    out.mkdir(exist_ok=True)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    save_file({
        "tokens": tokens[0].int(), "targets": targets[0].int(),
        "loss": torch.tensor([loss]), "logits": logits.float().contiguous(),
        "curve.tokens": tokens[1:].int().contiguous(), "curve.targets": targets[1:].int().contiguous(),
        "curve.losses": losses.float(), "curve.norms": norms.float(),
    } | {f"grad.{name}": g.float().contiguous() for name, g in grads.items()}, out / "reference.safetensors")

    size = sum(f.stat().st_size for f in out.iterdir())
    print(f"{family:8} loss {loss:.6f}  PyTorch's own float32 is off by: loss {abs(loss32 - loss) / loss:.1e}, gradient "
          f"{worst_gradient(grads32, grads):.1e}, curve {((losses - losses64).abs() / losses64).max():.1e}\n"
          f"{'':8} curve {losses[0]:.3f} -> {losses[-1]:.3f}, norms {norms.min():.2f} to {norms.max():.2f}, {size:,} bytes")


if __name__ == "__main__":
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    for name in sys.argv[1:] or FAMILIES:
        make(name, FAMILIES[name])
