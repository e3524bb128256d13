"""Serve a model by vLLM with and without the approved kernels: `python examples/serve_vllm.py MODEL [FLAGS]`.

Run by the interpreter of the environment that has vLLM, and kernelmill beside it. The kernels are those that
`kernelmill apply build`, `approve` and `verify` have put into KERNELMILL_APPLY_HOME; docs/apply.md tells how.
"""

from __future__ import annotations

import sys

from serving import compare, engine


def main() -> None:
    model, *flags = sys.argv[1:]
    compare([engine("vllm"), "serve", model, "--served-model-name", "served", *flags], {})


if __name__ == "__main__":
    main()
