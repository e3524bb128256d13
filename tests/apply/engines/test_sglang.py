"""SGLang's plugin in its own interpreter: what stands at the hooked places while apply is on, and while it is off."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.apply.engines.serving import SGLANG, armed

pytestmark = SGLANG.marks
PLACES = """\
import json, os, sys
import torch
from sglang.srt.layers.activation import SiluAndMul
from sglang.srt.layers.layernorm import GemmaRMSNorm, RMSNorm
from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod
from sglang.srt.plugins import load_plugins

PLACES = [
    (RMSNorm, "__init__"), (RMSNorm, "forward_native"), (SiluAndMul, "__init__"), (SiluAndMul, "forward_native"),
    (UnquantizedLinearMethod, "create_weights"), (UnquantizedLinearMethod, "apply"),
]
def now():
    return [owner.__dict__[name] for owner, name in PLACES]
def same(found):
    return [one is other for one, other in zip(now(), found)]
before = now()
"""
SWITCHED = f"""{PLACES}
from kernelmill.apply.engines.sglang import register
from sglang.srt.plugins.hook_registry import HookRegistry

wanted = os.environ.pop("KERNELMILL_ENABLE_APPLY")
register()
asked_for = list(HookRegistry._hooks)
os.environ["KERNELMILL_ENABLE_APPLY"] = wanted
load_plugins()
from kernelmill.apply import disable_apply
from kernelmill.apply.state import current

hooked = now()
norms = [
    RMSNorm(256, eps=1e-5), RMSNorm(256, eps=1e-6), RMSNorm(256, eps=1e-5, cast_x_before_out_mul=True),
    RMSNorm(256, eps=1e-5, var_hidden_size=128), GemmaRMSNorm(256, eps=1e-5),
]
x, residual = torch.randn(4, 256), torch.randn(4, 256)
def outputs():
    with torch.no_grad():
        added = norms[0](x, residual, post_residual_addition=x)
        return [*(norm(x) for norm in norms), *norms[0](x, residual), *added]
def calls():
    return {{op: count for (op, _), count in current().shapes.items()}}
on = [outputs() for _ in range(3)][-1]
counted = calls()
with disable_apply():
    off_is_before = same(before)
    off = outputs()
after = same(hooked)
again = outputs()
print(json.dumps({{
    "unwanted": asked_for, "hooked": same(before), "off": off_is_before, "on again": after, "calls": counted,
    "near": [torch.allclose(one, other, atol=1e-5) for one, other in zip(on, off)],
    "as before": [torch.equal(one, other) for one, other in zip(on, again)],
}}))
"""
TWO_PLUGINS = f"""{PLACES}
from sglang.srt.plugins.hook_registry import HookRegistry, HookType
path = "sglang.srt.layers.activation.SiluAndMul.forward_native"
HookRegistry.register(path, lambda original, *args: original(*args), HookType.AROUND)
load_plugins()
print(json.dumps(None))
"""


def run(code: str, folder: Path, **over: str) -> tuple[Any, str]:
    """What the code printed last, and its log."""
    env = {**os.environ, **SGLANG.environ, **over}
    done = subprocess.run(
        [SGLANG.python, "-P", "-c", code], env=env, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture(scope="module")
def switched(home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("switched")
    told: dict[str, Any]
    told, _ = run(SWITCHED, folder, **armed(home, folder))
    return told


def test_without_the_variable_nothing_is_asked_for(switched: dict[str, Any]) -> None:
    assert switched["unwanted"] == []


def test_turned_off_the_very_same_functions_stand_where_they_stood(switched: dict[str, Any]) -> None:
    assert switched["hooked"] == [False] * 6
    assert switched["off"] == [True] * 6
    assert switched["on again"] == [True] * 6
    assert all(switched["as before"])


def test_only_norms_that_mean_the_same_are_served(switched: dict[str, Any]) -> None:
    """Not with another epsilon, a cast before the weight, a part of the width, Gemma's weight or a second addend."""
    assert all(switched["near"])
    assert switched["calls"] == {
        "rms_norm": 2,
        "rms_norm (engine's own)": 1,
        "fused_add_rms_norm": 2,
        "fused_add_rms_norm (engine's own)": 1,
    }


def test_a_place_that_another_plugin_hooks_too_is_said_at_the_start(home: Path, tmp_path: Path) -> None:
    _, log = run(TWO_PLUGINS, tmp_path, **armed(home, tmp_path))
    assert "sglang.srt.layers.activation.SiluAndMul.forward_native NOT ours alone" in log
