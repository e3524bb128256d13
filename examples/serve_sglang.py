"""Serve a model by SGLang with and without the approved kernels: `python examples/serve_sglang.py MODEL [FLAGS]`.

Run by the interpreter of the environment that has SGLang, and kernelmill beside it. The kernels are those that
`kernelmill apply build`, `approve` and `verify` have put into KERNELMILL_APPLY_HOME; docs/apply.md tells how.
"""

from __future__ import annotations

import sys

from serving import compare

FLAGS = ["--device", "cpu", "--attention-backend", "torch_native", "--disable-overlap-schedule"]


def main() -> None:
    model, *flags = sys.argv[1:]
    command = [sys.executable, "-m", "sglang.launch_server", "--model-path", model, "--served-model-name", "served"]
    compare([*command, *FLAGS, *flags], {"SGLANG_USE_CPU_ENGINE": "1"})


if __name__ == "__main__":
    main()
