"""Writes a tiny model of random weights with a byte tokenizer: `python tiny_model.py FOLDER KIND DTYPE [WIDTH INNER]`.

Run by an engine's own interpreter, which has transformers. Norm weights are spread and others small, so that a wrong
norm or gate changes the answer.
"""

from __future__ import annotations

import sys
from typing import Any

KINDS = ("llama", "qwen3", "qwen3_moe")


def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    marks = ("<s>", "</s>", "<pad>")
    numbered = {token: at for at, token in enumerate((*letters, *marks))}
    made = Tokenizer(models.BPE(vocab=numbered, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    start, end, pad = marks
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=start, eos_token=end, pad_token=pad)


def config(kind: str, width: int, inner: int) -> Any:
    import transformers

    heads = max(4, width // 128)
    common = {
        "vocab_size": 512,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": heads // 2,
        "head_dim": 64 if width < 1024 else 128,
        "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "bos_token_id": 256,
        "eos_token_id": 257,
        "pad_token_id": 258,
    }
    if kind == "llama":
        return transformers.LlamaConfig(**common)
    if kind == "qwen3":
        return transformers.Qwen3Config(**common)
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "decoder_sparse_step": 1}
    return transformers.Qwen3MoeConfig(**common, **experts, norm_topk_prob=True)


def main(folder: str, kind: str, dtype: str, width: str = "256", inner: str = "512") -> None:
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config(kind, int(width), int(inner))).to(getattr(torch, dtype))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.uniform_(0.5, 1.5)
            else:
                weight.normal_(0.0, 0.08)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer().save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
