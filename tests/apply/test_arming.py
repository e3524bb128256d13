"""Unmodified programs: armed by the environment, lightly, with everything as it was after turning it off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelmill.apply.approval.approve import approve
from kernelmill.apply.arming.exec import environment
from kernelmill.evaluator.sandbox import probe
from tests.apply.folder import cpp, operators_folder

needs_sandbox = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
SCRIPT = """\
import torch
import torch.nn.functional as F

class Norm(torch.nn.RMSNorm): pass

x, weight = torch.randn(2, 2, 8), torch.rand(8)
with torch.no_grad():
    before = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight
    for _ in range(3):
        torch.testing.assert_close(F.rms_norm(x, (8,), weight, 1e-5), before)
    module = Norm(8, eps=1e-5)
    module.weight.copy_(weight)
    torch.testing.assert_close(module(x), before)
"""


def python(code: str, env: dict[str, str], *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", *args, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if probe() is not None:
        pytest.skip(f"no sandbox on this host: {probe()}")
    fast = cpp()
    found = operators_folder(tmp_path_factory.mktemp("operator"), fast)
    approve(found, fast.hash())
    return found


@pytest.mark.parametrize("name", ["KERNELMILL_ENABLE_APPLY", "FIB_ENABLE_APPLY"])
def test_import_kernelmill_with_the_variable_set_arms_and_imports_no_torch(name: str) -> None:
    code = (
        "import sys, kernelmill; "
        "print('torch' in sys.modules, [type(f).__name__ for f in sys.meta_path].count('Watch'))"
    )
    assert python(code, {**os.environ, name: "1"}) == "False 1\n"
    assert python(code, {**os.environ, name: "0"}) == "False 0\n"


def test_a_program_runs_substituted_without_knowing_it(home: Path, tmp_path: Path) -> None:
    over = {"KERNELMILL_APPLY_HOME": str(home), "KERNELMILL_APPLY_METRICS": str(tmp_path / "metrics")}
    command = [sys.executable, "-P", "-m", "kernelmill", "apply", "exec", "--", sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env={**os.environ, **over}, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = subprocess.run(
        [sys.executable, "-P", "-m", "kernelmill", "apply", "explain", "--run", str(tmp_path / "metrics")],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "rmsnorm_h8  served  cpp_norm  4" in told.stdout


def test_the_programs_own_sitecustomize_runs_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')\n")
    env = environment({**os.environ, "PYTHONPATH": str(tmp_path)})
    code = "import sys, sitecustomize; print(sitecustomize.__file__, 'kernelmill' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path
    )
    assert done.stdout == f"mine\n{tmp_path / 'sitecustomize.py'} True\n"


def test_a_folder_without_a_table_leaves_the_program_alone_and_says_so(tmp_path: Path) -> None:
    env = environment({**os.environ, "KERNELMILL_APPLY_HOME": str(tmp_path)})
    said = python("import torch.nn.functional as F; print(F.rms_norm.__module__)", env)
    assert "kernelmill: apply is off: there is no" in said
    assert "torch.nn.functional" in said


def test_our_own_commands_are_never_armed() -> None:
    code = (
        "import sys, kernelmill.cli; sys.argv = ['kernelmill', '--version']\n"
        "try: kernelmill.cli.main()\n"
        "except SystemExit: pass\n"
        "print([type(f).__name__ for f in sys.meta_path].count('Watch'))"
    )
    assert python(code, {**os.environ, "KERNELMILL_ENABLE_APPLY": "1"}).splitlines()[-1] == "0"


def test_the_hooks_keep_off_where_an_engine_with_a_plugin_is_imported(tmp_path: Path, home: Path) -> None:
    (tmp_path / "vllm.py").write_text("import torch\n")
    env = environment({**os.environ, "KERNELMILL_APPLY_HOME": str(home), "PYTHONPATH": str(tmp_path)})
    code = "import vllm, torch.nn.functional as F; print(F.rms_norm.__module__, F.linear.__name__)"
    assert python(code, env) == "torch.nn.functional linear\n"
