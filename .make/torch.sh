#!/usr/bin/env bash
# torch before anything else asks for it: the CPU build where there is no NVIDIA driver and pip can find one.
set -euo pipefail
python=$1 version=$2

if [ ! -e /dev/nvidia0 ] && "$python" -m pip install --quiet "torch==$version+cpu" 2>/dev/null; then
  exit 0
fi
"$python" -m pip install --quiet "torch==$version"
