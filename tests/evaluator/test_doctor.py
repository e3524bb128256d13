"""Each check of the doctor, once well and once ill: the ill one says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from kernelmill.evaluator import doctor, machine
from kernelmill.evaluator.builders import BUILDERS
from kernelmill.evaluator.builders.python import PythonBuilder
from kernelmill.evaluator.doctor import Check
from kernelmill.evaluator.sandbox import probe
from kernelmill.trace_schema import Solution
from tests.builders import raw_solution


@pytest.mark.parametrize("version", [(3, 10, 1), (3, 14, 0)])
def test_python_outside_the_range(version: tuple[int, ...]) -> None:
    assert doctor.check_python().status == "ok"
    assert doctor.check_python(version) == Check(
        "python", "fail", ".".join(map(str, version)) + " is not supported", "use Python 3.11, 3.12 or 3.13"
    )


@pytest.mark.parametrize(
    ("version", "status"), [("", "fail"), ("2.7.1", "fail"), ("2.8.0+cpu", "ok"), ("2.13.0", "ok")]
)
def test_torch_missing_or_old(version: str, status: str) -> None:
    check = doctor.check_torch(version)
    assert check.status == status
    assert ("pip install" in check.remedy) == (status == "fail")


def test_a_sandbox_that_does_not_work_is_a_failure_with_its_cause() -> None:
    check = doctor.check_sandbox(lambda: "AppArmor forbids user namespaces; run: sudo sysctl …")
    assert (check.status, "AppArmor" in check.detail) == ("fail", True)
    assert doctor.check_sandbox(lambda: None).status == "ok"


def test_no_control_groups_is_a_warning() -> None:
    check = doctor.check_freezer(lambda: None)
    assert (check.status, "systemd-run" in check.remedy) == ("warn", True)
    assert doctor.check_freezer().status in ("ok", "warn")


def test_a_slow_clock_is_a_warning() -> None:
    assert doctor.check_clock(lambda: 5000.0).status == "warn"
    assert doctor.check_clock(lambda: 10.0) == Check("clock", "ok", "a round trip between processes takes 10 us")
    assert doctor.check_clock().status in ("ok", "warn")


def test_the_device_is_named() -> None:
    assert machine.cpu_name() in doctor.check_device().detail


def test_an_optional_package_that_is_missing_is_a_warning() -> None:
    assert doctor.check_package("no_such_engine").status == "warn"
    assert doctor.check_package("pydantic").status == "ok"


class Missing(PythonBuilder):
    def available(self) -> str | None:
        return "g++ not found; apt-get install g++"


class Wrong(PythonBuilder):
    example = Solution.model_validate(
        raw_solution(name="wrong", definition="double", source="def run(x, out):\n    out.copy_(3 * x)\n")
    )


def test_a_language_without_its_compiler_is_a_failure() -> None:
    assert doctor.check_language(Missing()) == Check(
        "language python", "fail", "does not work here", "g++ not found; apt-get install g++"
    )


@pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
def test_a_language_whose_example_fails_is_a_failure() -> None:
    check = doctor.check_language(Wrong())
    assert (check.status, "INCORRECT_NUMERICAL" in check.remedy) == ("fail", True)


@pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
@pytest.mark.parametrize("builder", [b for b in BUILDERS if b.kind != "torch"], ids=lambda builder: builder.kind)
def test_every_language_of_a_healthy_host_passes(builder: Any) -> None:
    check = doctor.check_language(builder)
    assert check.status == "ok", check


def test_the_command_prints_one_check_a_line_and_fails_when_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "from kernelmill.evaluator import doctor; from kernelmill.evaluator.doctor import Check\n"
        "doctor.examine = lambda: iter([Check('a', 'ok', 'fine'), Check('b', 'fail', 'broken', 'mend it')])\n"
        "import sys; sys.argv = ['kernelmill', 'doctor', '--json']; from kernelmill.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert [json.loads(line)["status"] for line in done.stdout.splitlines()] == ["ok", "fail"]
