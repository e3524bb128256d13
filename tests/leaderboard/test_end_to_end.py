"""From a shell: serve, token, submit, watch, the board and the apply table, with the real judge on this CPU."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from kernelmill.evaluator.sandbox import probe
from tests.builders import SOURCE, raw_solution
from tests.leaderboard.world import DEFINITION, small_dataset

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}"),
]
SLOW = SOURCE.replace("    output.copy_", "    for _ in range(300):\n        hidden_states.sum()\n    output.copy_")
HOSTILE = """\
import os, signal, socket, subprocess


def run(hidden_states, weight, output):
    for act in (
        lambda: os.kill(os.getppid(), signal.SIGKILL),
        lambda: subprocess.run(["pkill", "-9", "python"]),
        lambda: socket.create_connection(("127.0.0.1", PORT), 1).send(b"POST /shutdown HTTP/1.0\\r\\n\\r\\n"),
        lambda: open("/etc/passwd", "a").write("x"),
        lambda: [os.remove(os.path.join(folder, name)) for folder, _, names in os.walk("/") for name in names],
    ):
        try:
            act()
        except Exception:
            pass
"""


class Service:
    """A `kernelmill serve` of its own."""

    def __init__(self, folder: Path) -> None:
        self.env = {
            **os.environ,
            "KERNELMILL_STATE": str(folder / "state"),
            "KERNELMILL_DATASET": str(small_dataset(folder / "dataset", baseline=SLOW)),
            "KERNELMILL_CACHE": os.environ["KERNELMILL_CACHE"],
        }
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(self.command("serve", "--port", "0"), env=self.env, stderr=log)
        self.address = self._address()
        self.env["KERNELMILL_SERVER"] = self.address
        self.env["KERNELMILL_TOKEN"] = self.run("token", "create", "--name", "alice", "--scopes", "submit,read").strip()

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "kernelmill", *arguments]

    def run(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            self.command(*arguments), env=self.env, capture_output=True, text=True, check=False, timeout=180
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def refused(self, *arguments: str, **env: str) -> str:
        """What a command that exits with 2 says on stderr."""
        done = subprocess.run(
            self.command(*arguments),
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 2, done.stdout + done.stderr
        return done.stderr

    def get(self, path: str) -> Any:
        return httpx2.get(self.address + path, timeout=30).json()

    def close(self) -> None:
        tree = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        gone, alive = psutil.wait_procs(tree, timeout=20)
        assert alive == [], "the whole tree ends with it"
        assert len(gone) == len(tree)

    def _address(self) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = re.search(r"^kernelmill: (http://\S+)$", self.log.read_text(), re.MULTILINE)
            if found:
                return found[1]
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(tmp_path_factory.mktemp("service"))
    yield made
    made.close()


def write(folder: Path, name: str, source: str) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(raw_solution(name=name, source=source)))
    return str(path)


def test_token_submit_events_verdict_board_and_apply_table(service: Service, tmp_path: Path) -> None:
    events = [
        json.loads(line)
        for line in service.run("submit", write(tmp_path, "fast", SOURCE), "--wait", "--json").splitlines()
    ]
    assert [event["verdict"] for event in events if event["event"] == "verdict" and "verdict" in event] == [
        "PASSED"
    ] * 4
    assert (events[-1]["event"], events[-1]["state"], events[-1]["outcome"]) == ("end", "done", "passed")
    board = service.get(f"/api/v1/leaderboard?definition={DEFINITION}")["boards"][0]
    assert board["rows"][0]["solution"] == "fast"
    assert board["rows"][0]["speedup"]["ratio"] > 1
    applied = service.get("/api/v1/apply-table")["items"]
    assert {item["solution"] for item in applied} == {"fast"}
    assert service.run("watch", events[-1]["id"]).count("PASSED") == 5


def test_what_does_not_pass_has_its_exit_code(service: Service, tmp_path: Path) -> None:
    wrong = SOURCE.replace("output.copy_(", "output.copy_(2 * ")
    told = service.run("submit", write(tmp_path, "wrong", wrong), "--wait", code=3)
    assert "INCORRECT_NUMERICAL" in told


def test_a_hostile_submission_ends_as_its_verdict_and_the_service_is_untouched(
    service: Service, tmp_path: Path
) -> None:
    before = {process.pid for process in psutil.Process(service.process.pid).children()}
    port = service.address.rpartition(":")[2]
    told = service.run("submit", write(tmp_path, "hostile", HOSTILE.replace("PORT", port)), "--wait", code=3)
    assert "PASSED" not in told
    assert {process.pid for process in psutil.Process(service.process.pid).children()} == before
    assert httpx2.get(service.address + "/readyz").status_code == 200
    row = next(
        row
        for row in service.get(f"/api/v1/leaderboard?definition={DEFINITION}")["boards"][0]["rows"]
        if row["solution"] == "hostile"
    )
    assert row["rank"] is None


def test_a_refusal_is_one_line_that_says_what_to_do(service: Service, tmp_path: Path) -> None:
    path = write(tmp_path, "mine", SOURCE + "# mine\n")
    said = service.refused("submit", path, KERNELMILL_TOKEN="km_wrong")
    assert said.strip() == "kernelmill: 401: the token is unknown, expired or revoked; ask for another one"
    said = service.refused("watch", "0" * 32, "--server", "http://127.0.0.1:9")
    assert "is not reached" in said


def test_tokens_are_listed_without_their_secret_and_revoked(service: Service) -> None:
    secret = service.run("token", "create", "--name", "bob").strip()
    listed = [json.loads(line) for line in service.run("token", "list").splitlines()]
    bob = next(row for row in listed if row["author"] == "bob")
    assert secret not in json.dumps(listed)
    headers = {"Authorization": f"Bearer {secret}"}
    assert httpx2.get(service.address + "/api/v1/solutions", headers=headers).status_code == 200
    service.run("token", "revoke", str(bob["id"]))
    assert httpx2.get(service.address + "/api/v1/solutions", headers=headers).status_code == 401


def test_a_child_that_is_killed_is_started_again(service: Service) -> None:
    parent = psutil.Process(service.process.pid)
    api = min(parent.children(), key=lambda process: process.create_time())
    api.kill()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if httpx2.get(service.address + "/healthz", timeout=10).status_code == 200:
                break
        except httpx2.TransportError:
            time.sleep(0.1)
    assert httpx2.get(service.address + "/readyz").status_code == 200


def test_the_first_administrators_token_is_its_owners_alone(service: Service) -> None:
    path = Path(service.env["KERNELMILL_STATE"]) / "admin-token"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().strip() not in service.log.read_text()
    assert Path(service.env["KERNELMILL_STATE"], "kernelmill.db").stat().st_mode & 0o777 == 0o600


def test_nothing_wider_than_this_host_without_auth(service: Service) -> None:
    said = service.refused("serve", "--host", "0.0.0.0", "--no-auth")
    assert "refusing to listen on 0.0.0.0 without auth" in said


def test_a_taken_port_is_said(service: Service) -> None:
    port = service.address.rpartition(":")[2]
    said = service.refused("serve", "--port", port)
    assert f"cannot listen on 127.0.0.1:{port}" in said
