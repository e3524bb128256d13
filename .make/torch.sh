#!/usr/bin/env bash
# torch before anything else asks for it: the CPU build where it is asked for, or where there is no NVIDIA driver.
# usage: torch.sh PYTHON VERSION [cpu]
set -euo pipefail
python=$1 version=$2 build=${3:-}
cpu_index=https://download.pytorch.org/whl/cpu # PyPI has no CPU build

pip() { "$python" -m pip install --quiet "$@"; }

if [ "$build" = cpu ] || [ ! -e /dev/nvidia0 ]; then
  pip "torch==$version+cpu" 2>/dev/null && exit
  pip --retries 1 --timeout 30 --extra-index-url "$cpu_index" "torch==$version+cpu" 2>/dev/null && exit
fi
pip "torch==$version"
