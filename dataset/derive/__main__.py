"""`python -m kernelmill.dataset.derive --azure FILE --sglang DIR --out DIR`: the shipped workloads."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelmill.dataset.derive.shipped import write_shipped


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kernelmill.dataset.derive", description=__doc__)
    parser.add_argument("--azure", type=Path, required=True, help="AzureLLMInferenceTrace_conv.csv")
    parser.add_argument("--sglang", type=Path, required=True, help="folder of decode_paged_*.safetensors")
    parser.add_argument("--out", type=Path, required=True, help="a dataset's root")
    arguments = parser.parse_args()
    for name, workloads in write_shipped(arguments.azure, arguments.sglang, arguments.out).items():
        print(f"{name}: {len(workloads)} workloads", file=sys.stderr)


if __name__ == "__main__":
    main()
