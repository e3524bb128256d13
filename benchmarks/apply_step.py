"""A step of a small Llama in plain transformers, with the approved kernels and without, by turns in one process.

`KERNELMILL_APPLY_HOME=… python -m benchmarks.apply_step [--tokens 64] [--pairs 40]` where transformers is installed.
The model has two layers of width 4096 with a narrow middle and few heads, so that norms are a visible part of a step.
Prints the median ratio of the times of neighbouring steps with its 95 % interval, and how far the logits lie apart.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import torch

from kernelmill.apply import disable_apply, enable_apply
from kernelmill.apply.engines import pytorch
from kernelmill.evaluator.statistics import paired_ratio


def model() -> Any:
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=512,
        hidden_size=4096,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        rms_norm_eps=1e-5,
    )
    torch.manual_seed(0)
    made = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "norm" in name:
                weight.uniform_(0.5, 1.5)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=40)
    asked = parser.parse_args()
    made, tokens = model(), torch.randint(0, 256, (1, asked.tokens))
    pytorch.follow()

    def step() -> tuple[float, torch.Tensor]:
        start = time.perf_counter()
        logits: torch.Tensor = made(tokens).logits
        return time.perf_counter() - start, logits

    with torch.inference_mode(), enable_apply():
        ratios = []
        for at in range(asked.pairs + 3):
            with_ours, mine = step()
            with disable_apply():
                without, theirs = step()
            if at >= 3:
                ratios.append(math.log(without / with_ours))
    apart = float((mine.float() - theirs.float()).abs().max() / theirs.float().abs().max())
    found = paired_ratio([ratios])
    print(
        f"{found.point:.2f}x ({found.lo:.2f} to {found.hi:.2f}) over {len(ratios)} pairs; logits apart by {apart:.1e}"
    )


if __name__ == "__main__":
    main()
