"""What a user installs: sdist to wheel to contents, and the command in a fresh interpreter."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("trace_schema", "dataset", "evaluator", "leaderboard", "apply", "agents", "web")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built the way pip builds from PyPI: from the sdist, not from the tree."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out)]
    done = subprocess.run([*build, str(ROOT)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with tarfile.open(next(out.glob("*.tar.gz"))) as sdist:
        names = sdist.getnames()
        assert any(name.endswith("/README.md") for name in names)
        assert any("/tests/" in name for name in names)
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_the_wheel_holds_one_package_with_all_seven_parts(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kernelmill"}
    for package in PACKAGES:
        assert f"kernelmill/{package}/__init__.py" in names
    assert {"kernelmill/py.typed", "kernelmill/__main__.py", "kernelmill/cli.py"} <= set(names)


def test_the_wheel_holds_the_shipped_dataset_and_the_report_template(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "kernelmill/dataset/data/definitions/rmsnorm/rmsnorm_h4096.json" in names
    assert any(name.startswith("kernelmill/dataset/data/blob/") for name in names)
    assert any(name.startswith("kernelmill/evaluator/report/") and name.endswith(".html") for name in names)
    assert not any("/tests/" in name or name.endswith(".pyc") for name in names)


def test_the_wheel_carries_the_demo_slice_alone(wheel: zipfile.ZipFile) -> None:
    """A clone has the whole dataset; pyproject.toml lists what the wheel keeps of it."""
    data = [name for name in wheel.namelist() if name.startswith("kernelmill/dataset/data/")]
    demo = set(json.loads(wheel.read("kernelmill/dataset/data/demo.json")))
    assert {Path(name).stem for name in data if "/data/definitions/" in name} == demo
    assert {Path(name).stem for name in data if "/data/workloads/" in name} == demo
    assert {Path(name).parent.name for name in data if "/data/solutions/" in name} == demo
    assert sum(wheel.getinfo(name).file_size for name in data) < 5 << 20


def test_the_wheel_works_when_unpacked(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import kernelmill;"
        "ds = kernelmill.Dataset.open(kernelmill.__path__[0] + '/dataset/data', cache_dir=sys.argv[1]);"
        "print(kernelmill.__file__, len(ds.definitions))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where, count = done.stdout.split()
    assert where.startswith(str(tmp_path))
    assert int(count) >= 10


def test_python_dash_m_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kernelmill", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout)


def test_the_changelog_knows_the_version() -> None:
    import kernelmill

    assert f"## {kernelmill.__version__}" in (ROOT / "CHANGELOG.md").read_text()
