"""Nothing foreign runs by itself: what is approved, by whose key, as which bytes, with which imports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from kernelmill.apply import ApplyError, apply, enable_apply
from kernelmill.apply.approval.approve import KERNELS, approve, revoke
from kernelmill.apply.approval.keys import make_keys
from kernelmill.apply.approval.manifest import MANIFEST
from kernelmill.apply.explain import explain, explain_call
from kernelmill.apply.installed import Installed
from kernelmill.apply.settings import Settings
from kernelmill.apply.state import current
from kernelmill.evaluator.sandbox import probe
from tests import builders
from tests.apply.folder import SOURCE, cpp, host, operators_folder
from tests.apply.kernels import NORM, inputs, norm

pytestmark = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
FAST = cpp()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = operators_folder(tmp_path, FAST)
    monkeypatch.setenv("KERNELMILL_APPLY_HOME", str(found))
    return found


def served(rows: int) -> bool:
    """Whether a kernel and not the caller's own answers; the answer is right either way."""
    x, weight = inputs(rows)
    seen = []

    def own(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return norm(x, weight)

    torch.testing.assert_close(apply(NORM.name, args=(x, weight), fallback=own), norm(x, weight))
    return not seen


def test_an_approved_kernel_serves_the_measured_sizes_and_computes_by_itself(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELMILL_APPLY_FIRST", "0")
    approval = approve(home, FAST.hash()[:8])
    ticks = Installed.read(Settings.read()).load(approval.model_copy(update={"symbol": "count"}))
    with enable_apply():
        before = ticks()
        x, weight = inputs(4)
        got = apply(NORM.name, args=(x, weight), fallback=lambda *args: pytest.fail("the original was called"))
        assert ticks() == before + 1
        torch.testing.assert_close(got, norm(x, weight))
        assert [rows for rows in range(1, 20) if served(rows)] == [1, 2, 4, 8, 16]


def test_without_approval_nothing_is_in_force_and_explain_says_what_to_do(home: Path) -> None:
    with enable_apply():
        assert current().served == {}  # type: ignore[union-attr]
        assert not served(4)
    lines = list(explain(Installed.read(Settings.read()), host().model))
    assert any(f"kernelmill apply approve {FAST.hash()[:12]}" in line.get("why", "") for line in lines)
    assert {line["served"] for line in lines if "served" in line} == {"no"}


def test_explain_tells_a_calls_kernel_or_the_sizes_that_are_covered(home: Path) -> None:
    approve(home, FAST.hash())
    installed = Installed.read(Settings.read())
    assert explain_call(installed, host().model, NORM.name, {"batch_size": 4})["served"] == FAST.name
    told = explain_call(installed, host().model, NORM.name, {"batch_size": 3})
    assert told["served"] is None
    assert "batch_size=4" in told["why"]
    assert (
        "table is for"
        in explain_call(Installed.read(Settings.read()), "Other CPU", NORM.name, {"batch_size": 4})["why"]
    )


def test_a_kernel_taken_back_serves_no_more(home: Path) -> None:
    approve(home, FAST.hash())
    assert revoke(home, FAST.hash()[:10]) == [FAST.name]
    with enable_apply():
        assert not served(4)


def test_a_changed_manifest_is_refused_as_a_whole(home: Path) -> None:
    approve(home, FAST.hash())
    manifest = json.loads((home / MANIFEST).read_text())
    manifest["approvals"][0]["reviewed"] = True
    (home / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ApplyError, match="not signed by the key that this host trusts"):
        enable_apply()
    assert current() is None


def test_another_operators_manifest_is_refused(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    approve(home, FAST.hash())
    _, public = make_keys(tmp_path / "other")
    monkeypatch.setenv("KERNELMILL_APPLY_TRUST", str(public))
    with pytest.raises(ApplyError, match="another operator's"):
        enable_apply()


@pytest.mark.parametrize("how", ["changed", "added", "linked", "gone"])
def test_files_that_are_not_the_approved_ones_are_never_loaded(
    home: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    approval = approve(home, FAST.hash())
    library = home / KERNELS / approval.solution_hash / approval.entry
    if how == "changed":
        library.write_bytes(library.read_bytes() + b"\0")
    elif how == "added":
        (library.parent / "more.so").write_bytes(b"")
    elif how == "linked":
        library.rename(home / "elsewhere.so")
        library.symlink_to(home / "elsewhere.so")
    else:
        library.unlink()
    with enable_apply():
        assert not served(4)
    assert "is not what was approved" in capsys.readouterr().err


REACHING = {
    "fopen": '#include <cstdio>\nvoid reach() { fclose(fopen("/tmp/x", "w")); }',
    "system": '#include <cstdlib>\nvoid reach() { (void)!system("true"); }',
    "dlopen": '#include <dlfcn.h>\nvoid reach() { dlopen("libm.so.6", RTLD_NOW); }',
    "socket": "#include <sys/socket.h>\nvoid reach() { socket(AF_INET, SOCK_STREAM, 0); }",
    "getenv": '#include <cstdlib>\nconst char* reach() { return getenv("HOME"); }',
    "ofstream": '#include <fstream>\nvoid reach() { std::ofstream("/tmp/x") << 1; }',
    "thread": "#include <thread>\nvoid reach() { std::thread([] {}).join(); }",
    "mprotect": "#include <sys/mman.h>\nvoid reach() { mprotect(nullptr, 0, PROT_EXEC); }",
}


@pytest.mark.parametrize("what", REACHING)
def test_a_native_kernel_that_reaches_beyond_memory_and_mathematics_is_not_approved(what: str, tmp_path: Path) -> None:
    exported = REACHING[what].replace(" reach()", ' __attribute__((visibility("default"))) reach()', 1)
    solution = cpp(source=f"{SOURCE}\n{exported}\n")
    home = operators_folder(tmp_path, solution)
    with pytest.raises(ApplyError, match="is not approved"):
        approve(home, solution.hash())
    assert not (home / MANIFEST).exists()


def test_python_needs_the_operators_word_that_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solution = builders.solution(
        name="python_norm",
        author="bob",
        description="other than the baseline",
        source=(
            "import torch\n\n\ndef run(hidden_states, weight, output):\n"
            "    output.copy_(torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, 1e-5))\n# mine\n"
        ),
    )
    home = operators_folder(tmp_path, solution)
    with pytest.raises(ApplyError, match="read its source"):
        approve(home, solution.hash())
    assert approve(home, solution.hash(), reviewed=True).reviewed
    monkeypatch.setenv("KERNELMILL_APPLY_FIRST", "0")
    with enable_apply(home):
        assert served(4)


def test_a_hash_that_names_nothing_or_too_little_is_refused(home: Path) -> None:
    for prefix in ("abc", "", "../../etc", "ffffffff"):
        with pytest.raises(ApplyError, match="six digits"):
            approve(home, prefix)


def test_a_second_key_pair_does_not_replace_the_first(home: Path) -> None:
    with pytest.raises(ApplyError, match="would void every approval"):
        make_keys(home)
    assert (home / "operator.key").stat().st_mode & 0o077 == 0
