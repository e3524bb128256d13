"""docker-compose.yml, the Dockerfile and the seccomp profile hold to what is said of them, without Docker."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest

import kernelmill
from kernelmill.evaluator.sandbox import probe
from kernelmill.leaderboard.settings import Settings
from tests.leaderboard import compose
from tests.leaderboard.compose import DOCKERFILE, ROOT, Unset, interpolate, raw

SERVICES: dict[str, Any] = raw()["services"]
JOBS = ("migrate", "sync")
JUDGES = {"evaluator", "evaluator-gpu", "ray-worker"}
SECRET = re.compile(r"PASSWORD|TOKEN|SECRET")
PROFILE = ROOT / "docker" / "seccomp.json"
each_service = pytest.mark.parametrize("name", SERVICES)


@each_service
def test_no_service_has_more_rights_than_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert not {"privileged", "pid", "ipc", "userns_mode", "network_mode", "devices", "cgroup"} & set(service)
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert ("seccomp:docker/seccomp.json" in service["security_opt"]) == (name in JUDGES)
    assert len(service["security_opt"]) == (4 if name in JUDGES else 1)
    assert not any("docker.sock" in str(volume) for volume in service.get("volumes", ()))


@each_service
def test_only_what_uncovers_proc_starts_as_root_and_it_ends_as_somebody_else(name: str) -> None:
    service = SERVICES[name]
    if "cap_add" in service or service.get("user") == "root":
        assert (name, service["entrypoint"]) == ("evaluator-gpu", ["unmask"])
        said = (ROOT / "docker" / "unmask.sh").read_text()
        assert {"--reuid", "--regid", "--clear-groups", "--bounding-set=-all", "--no-new-privs"} <= set(
            re.findall(r"--[a-z-]+(?:=-all)?", said)
        )


def test_nothing_but_the_api_is_published_and_that_to_this_host() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"api"}
    (port,) = interpolate(published["api"], {})
    assert port.startswith("127.0.0.1:")
    assert "--auth" in SERVICES["api"]["command"]


def test_a_service_reaches_only_those_that_it_works_with() -> None:
    networks = raw()["networks"]
    assert {name for name, options in networks.items() if not (options or {}).get("internal")} == {"public"}
    members = {net: {name for name, service in SERVICES.items() if net in service["networks"]} for net in networks}
    assert members["public"] == {"api"}
    assert members["ray"] == {"ray-head", "ray-worker", "dispatcher-ray"}
    assert "ray-worker" not in members["backend"]


@each_service
def test_each_is_a_job_or_looked_after(name: str) -> None:
    service = SERVICES[name]
    if name in JOBS:
        assert service["restart"] == "no"
        return
    assert service["restart"] == "unless-stopped"
    assert ("healthcheck" in service) != ("x-no-healthcheck" in service)
    assert len(service.get("x-no-healthcheck", "why not?")) > 5


@each_service
def test_images_are_pinned_to_a_version(name: str) -> None:
    image, _, tag = SERVICES[name]["image"].partition(":")
    if image == "kernelmill":
        assert tag.split("-")[0] == kernelmill.__version__
    else:
        assert re.match(r"\d+", tag)


@each_service
def test_secrets_come_from_outside_and_their_lack_is_told(name: str) -> None:
    for key, value in SERVICES[name].get("environment", {}).items():
        if SECRET.search(key):
            assert value is None or re.fullmatch(r"\$\{\w+:[-?][^}]*\}", value), key
            assert value is None or ":-}" in value or ":?" in value, f"{key} has a value of its own"
    if "PGPASSWORD" in SERVICES[name].get("environment", {}):
        with pytest.raises(Unset, match="set POSTGRES_PASSWORD"):
            interpolate(SERVICES[name], {})


def test_what_is_waited_for_is_there_and_can_come() -> None:
    assert list(compose.order(SERVICES))[:3] == ["postgres", "migrate", "sync"]
    for service in SERVICES.values():
        for other, how in compose.waits_for(service).items():
            wanted = "service_completed_successfully" if other in JOBS else "service_healthy"
            assert how == {"condition": wanted}
            assert other in JOBS or "healthcheck" in SERVICES[other]
            assert set(SERVICES[other].get("profiles", ())) <= set(service.get("profiles", ()))


@each_service
def test_settings_exist_and_folders_are_mounted(name: str) -> None:
    service = SERVICES[name]
    known = {f"KERNELMILL_{field.upper()}" for field in Settings.model_fields} | {"KERNELMILL_DATASET"}
    env = {key: value for key, value in service.get("environment", {}).items() if key.startswith("KERNELMILL_")}
    assert set(env) <= known
    places = [volume.rsplit(":", 1)[-1] for volume in interpolate(service.get("volumes", []), {})]
    writable = {*service["tmpfs"], *(place for place in places if place != "ro")}
    if service["image"].startswith("kernelmill"):
        assert set(compose.image_environment().values()) <= writable
        assert not env.get("KERNELMILL_SPOOL") or env["KERNELMILL_SPOOL"] in writable
    for volume in service.get("volumes", ()):
        source = interpolate(volume, {}).split(":")[0]
        assert source in raw()["volumes"] or (ROOT / source).is_dir()


def test_a_cluster_shares_the_spool_at_one_path_and_asks_for_a_token() -> None:
    worker, dispatcher = SERVICES["ray-worker"], SERVICES["dispatcher-ray"]
    spool = f"spool:{dispatcher['environment']['KERNELMILL_SPOOL']}"
    assert spool in worker["volumes"]
    assert spool in dispatcher["volumes"]
    for name in ("ray-head", "ray-worker", "dispatcher-ray"):
        assert SERVICES[name]["environment"]["RAY_AUTH_MODE"] == "token"
    assert "PGPASSWORD" not in worker["environment"]


def test_what_was_built_can_be_loaded_from_the_cache() -> None:
    for name in JUDGES:
        assert "cache:/var/lib/kernelmill/cache" in SERVICES[name]["volumes"], "a tmpfs of Docker's is noexec"


def test_compose_itself_accepts_the_file() -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode
    ):
        pytest.skip("no docker compose on this host")
    command = ["docker", "compose", "--profile", "*", "--file", str(compose.FILE), "config", "--quiet"]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nowhere"}
    without = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env)
    assert without.returncode != 0
    assert "set POSTGRES_PASSWORD" in without.stderr
    env["POSTGRES_PASSWORD"] = "any"
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env)
    assert done.returncode == 0, done.stderr


def instructions() -> list[tuple[str, str]]:
    """Each with the lines that continue it."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2]) for line in text.splitlines() if line.strip()]


def last_stage() -> list[tuple[str, str]]:
    told = instructions()
    begins = max(number for number, (word, _) in enumerate(told) if word == "FROM")
    return told[begins:]


def test_the_image_runs_as_nobody_who_could_change_it() -> None:
    stage = last_stage()
    words = [word for word, _ in stage]
    assert words.count("USER") == 1
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", dict(stage)["USER"])
    after = words[words.index("USER") :]
    assert not {"RUN", "COPY", "ADD"} & set(after)
    assert not any("--chown" in rest for word, rest in stage if word == "COPY")


def test_the_image_is_built_from_pinned_parts_and_leaves_no_lists() -> None:
    for word, rest in instructions():
        assert word != "ADD"
        if word == "FROM":
            assert re.match(r"python:3\.12-slim-\w+", rest)
        if "apt-get install" in rest:
            assert "--no-install-recommends" in rest
            assert rest.rstrip().endswith("rm -rf /var/lib/apt/lists/*")
        assert not re.search(r"curl|wget|sudo|:latest", rest)
    makefile = (ROOT / "Makefile").read_text()
    assert re.findall(r"^TORCH := (\S+)", makefile, re.MULTILINE) == re.findall(
        r"TORCH=(\d\S+)", DOCKERFILE.read_text()
    )


def test_the_build_gets_what_the_package_is_made_of() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    links = [path.readlink().name for path in (ROOT / "kernelmill").iterdir() if path.is_symlink()]
    assert {"pyproject.toml", "README.md", "LICENSE", "kernelmill", *links} <= set(allowed)
    assert all((ROOT / name).exists() for name in allowed)
    assert not {".git", ".env", "tests"} & set(allowed)
    for word, rest in instructions():
        if word == "COPY" and not rest.startswith((".", "--from")):
            assert rest.split()[0] in allowed


def test_hadolint_finds_nothing() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("no hadolint on this host")
    done = subprocess.run(["hadolint", str(DOCKERFILE)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_seccomp_profile_is_an_allow_list() -> None:
    profile = json.loads(PROFILE.read_text())
    assert (profile["defaultAction"], profile["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 1)
    assert {rule["action"] for rule in profile["syscalls"]} == {"SCMP_ACT_ALLOW"}
    names = [name for rule in profile["syscalls"] for name in rule["names"]]
    assert len(set(names) - {"socket"}) == len(names) - names.count("socket")
    kernel = {"bpf", "init_module", "finit_module", "kexec_load", "reboot", "swapon", "settimeofday", "syslog"}
    others = {"ptrace", "process_vm_readv", "pidfd_getfd", "setns", "keyctl", "perf_event_open", "userfaultfd"}
    surface = {"io_uring_setup", "open_by_handle_at", "fsopen", "move_mount", "open_tree", "quotactl", "personality"}
    assert not (kernel | others | surface) & set(names)


def contained(*command: str) -> subprocess.CompletedProcess[str]:
    runner = [sys.executable, "-m", "tests.leaderboard.contained", str(PROFILE)]
    return subprocess.run([*runner, *command], capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)


@pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
def test_the_sandbox_works_under_the_seccomp_profile_and_without_capabilities() -> None:
    code = "from kernelmill.evaluator.sandbox import probe; print(probe())"
    done = contained(sys.executable, "-c", code)
    assert done.stdout.strip() == "None", done
    held = contained("grep", "-E", "Seccomp:|NoNewPrivs:|CapEff:", "/proc/self/status").stdout.split()
    assert (held[held.index("Seccomp:") + 1], held[held.index("NoNewPrivs:") + 1]) == ("2", "1")
    assert int(held[held.index("CapEff:") + 1], 16) & ~(1 << 31) == 0


def test_the_seccomp_profile_forbids_the_rest() -> None:
    code = """
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
for number in (101, 250, 298, 321, 425):  # ptrace, keyctl, perf_event_open, bpf, io_uring_setup
    assert libc.syscall(number, 99, 0, 0, 0, 0) == -1
    assert ctypes.get_errno() == errno.EPERM, number
try:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
except PermissionError:
    print("held")
"""
    if platform.machine() != "x86_64":
        pytest.skip("the numbers are those of x86-64")
    done = contained(sys.executable, "-c", code)
    assert done.stdout.strip() == "held", done.stderr
