"""Every command line of docker-compose.yml comes up here, in the file's order, on a real PostgreSQL, and judges."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from kernelmill.evaluator.sandbox import probe
from tests.leaderboard import compose
from tests.leaderboard.compose import ROOT, Stack
from tests.leaderboard.postgres import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
no_sandbox = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
START_S = 300.0
JUDGE_S = 600.0
DEFINITION = "rmsnorm_h4096"
SOURCE = """
import torch

def run(hidden_states, weight, output):
    output.copy_(torch.nn.functional.rms_norm(hidden_states, (4096,), weight, 1e-5))
"""


def free_port() -> int:
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return int(probing.getsockname()[1])


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {"api": free_port(), "ray": free_port()}


@pytest.fixture(scope="module")
def stack(postgres: Postgres, ports: dict[str, int]) -> Iterator[Stack]:
    """The services, none of them started yet; in the place of the file's PostgreSQL is the tests' own."""
    postgres.folder.chmod(0o755)  # a service has no capability to look past its mode
    postgres.sql("create database composed")
    variables = {
        "POSTGRES_PASSWORD": secrets.token_hex(16),
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "KERNELMILL_DATABASE_URL": postgres.url("composed"),
        "KERNELMILL_LOG_LEVEL": "info",
    }
    swaps = {"ray-head:6379": f"127.0.0.1:{ports['ray']}", "6379": str(ports["ray"]), "8000": str(ports["api"])}
    made = Stack(variables, {**swaps, "0.0.0.0": "127.0.0.1"})
    yield made
    made.close()


def get(ports: dict[str, int], path: str) -> Any:
    with urlopen(f"http://127.0.0.1:{ports['api']}{path}", timeout=30) as reply:
        return json.loads(reply.read())


def answers(ports: dict[str, int]) -> bool:
    try:
        return bool(get(ports, "/readyz") == {"status": "ok"})
    except (URLError, ConnectionError):
        return False


@pytest.fixture(scope="module")
def api(stack: Stack, ports: dict[str, int]) -> subprocess.Popen[bytes]:
    """The jobs and the API, each once what it waits for is there."""
    begun = [name for name in compose.order(stack.services) if name in ("migrate", "sync", "api")]
    assert begun == ["migrate", "sync", "api"]
    code, said = stack.run("migrate", timeout_s=START_S)
    assert code == 0, said
    code, said = stack.run("sync", timeout_s=START_S)
    assert code == 0, said
    assert json.loads(said.splitlines()[-1])["definitions"] > 0
    process = stack.start("api")
    stack.until("api", lambda: answers(ports), process, START_S)
    return process


def test_the_api_serves_what_the_jobs_laid(stack: Stack, ports: dict[str, int], api: object) -> None:
    assert DEFINITION in {each["name"] for each in get(ports, "/api/v1/definitions?limit=500")["items"]}
    assert stack.health("api")
    code, said = stack.run("migrate", timeout_s=START_S)
    assert (code, "up to date" in said) == (0, True)


def test_the_health_check_asks_by_a_name_that_is_allowed(stack: Stack, api: object) -> None:
    argv = stack.services["api"]["healthcheck"]["test"][1:]
    named = {"KERNELMILL_ALLOWED_HOSTS": "kernels.example.org,127.0.0.1"}
    assert stack.run("api", argv, timeout_s=60, **named)[0] == 0


def judged_here(stack: Stack, ports: dict[str, int], name: str) -> str:
    """A private submission on one workload, from the shell to its end; what the command said."""
    workloads = get(ports, f"/api/v1/definitions/{DEFINITION}/workloads")["items"]
    smallest = min(workloads, key=lambda each: each["axes"]["batch_size"])
    solution = {
        "name": f"composed_{name}",
        "definition": DEFINITION,
        "author": "admin",
        "spec": {"language": "python", "target_hardware": ["cpu"], "entry_point": "main.py::run"},
        "sources": [{"path": "main.py", "content": f"# {name}{SOURCE}"}],
    }
    file = stack.folder / f"{name}.json"
    file.write_text(json.dumps(solution))
    token = stack.inside("api", "/var/lib/kernelmill/state/admin-token").read_text().strip()
    command = ["kernelmill", "submit", str(file), "--workload", smallest["uuid"], "--wait"]
    server = f"http://127.0.0.1:{ports['api']}"
    code, said = stack.run("api", command, timeout_s=JUDGE_S, KERNELMILL_SERVER=server, KERNELMILL_TOKEN=token)
    assert code == 0, said + stack.log(name).read_text()[-4000:]
    return said


def offered(ports: dict[str, int]) -> list[str]:
    return [each["model"] for each in get(ports, "/api/v1/devices")["items"] if each["is_judging"]]


@no_sandbox
def test_the_evaluator_offers_its_device_and_judges(stack: Stack, ports: dict[str, int], api: object) -> None:
    process = stack.start("evaluator")
    stack.until("evaluator", lambda: bool(offered(ports)), process, START_S)
    assert "PASSED" in judged_here(stack, ports, "evaluator")
    assert process.poll() is None
    process.terminate()
    assert process.wait(120) == 0


def test_without_a_token_ray_does_not_start(stack: Stack) -> None:
    pytest.importorskip("ray")
    for name in ("ray-head", "ray-worker"):
        code, said = stack.run(name, timeout_s=120, RAY_AUTH_TOKEN="")
        assert code != 0, said
        assert "token" in said.lower()


@no_sandbox
@pytest.mark.skipif(
    not os.environ.get("KERNELMILL_TEST_RAY"),
    reason="a Ray cluster and the judge beside each other want more than two cores: set KERNELMILL_TEST_RAY",
)
def test_a_ray_cluster_judges(stack: Stack, ports: dict[str, int], api: object) -> None:
    pytest.importorskip("ray")
    for name in ("ray-head", "ray-worker", "dispatcher-ray"):
        process = stack.start(name)
        ready = {
            "ray-head": lambda: stack.health("ray-head"),
            "ray-worker": lambda: "Ray runtime started" in stack.log("ray-worker").read_text(),
            "dispatcher-ray": lambda: "Ray runtime started" in stack.log("dispatcher-ray").read_text(),
        }[name]
        stack.until(name, ready, process, START_S)
    assert "PASSED" in judged_here(stack, ports, "dispatcher-ray")
    assert '"judging"' in stack.log("dispatcher-ray").read_text()
    argv = stack.services["ray-head"]["healthcheck"]["test"][1:]
    assert stack.run("ray-head", argv, timeout_s=60, RAY_AUTH_TOKEN="f" * 64)[0] != 0, "a wrong token is let in"


def test_what_covers_proc_is_taken_away_before_judging() -> None:
    """As NVIDIA's runtime does it: where a part of /proc is covered nobody can mount a fresh one, as a sandbox must."""
    fresh = "unshare --user --map-root-user --mount --pid --fork --mount-proc echo fresh"
    nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    script = f"""
    {nobody} {fresh} && mount -t tmpfs none /proc/fs || exit 77
    {nobody} {fresh} || echo covered
    RUN_AS=65534 sh {ROOT}/docker/unmask.sh sh -c '{fresh}; grep CapBnd /proc/self/status; id -u'
    """
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip(f"this host lets us make no such namespaces: {done.stderr.strip()}")
    assert done.stdout.split() == ["fresh", "covered", "fresh", "CapBnd:", "0000000000000000", "65534"], done
