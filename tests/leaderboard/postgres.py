"""A PostgreSQL of our own for tests: started on a socket, killed at will, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

USER = "postgres"


def binaries() -> Path | None:
    """Where its programs lie: where Debian puts them, else on the PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if versions:
        return versions[-1].parent
    found = shutil.which("postgres")
    return Path(found).resolve().parent if found else None


class Postgres:
    """One server. It refuses to run as root, so there it runs as the user that its package made."""

    def __init__(self) -> None:
        found = binaries()
        assert found is not None
        self._bin = found
        self.folder = Path(tempfile.mkdtemp(prefix="kernelmill-postgres-"))
        self._data = self.folder / "data"
        if os.geteuid() == 0:
            os.chown(self.folder, pwd.getpwnam(USER).pw_uid, -1)
        self._run("initdb", "--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C", str(self._data))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, durable: bool = False) -> None:
        """`durable` flushes to the disk at each commit, as a real one does."""
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "fsync": "on" if durable else "off",
            "max_connections": "200",
        }
        command = [str(self._bin / "postgres"), "-D", str(self._data)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as_user(), *command], stdout=log, stderr=log, start_new_session=True
            )
        self._wait()

    def kill(self) -> None:
        """All of its processes at once, without a word, as a host's failure would."""
        assert self._process is not None
        pid = int((self._data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        self._process.wait(30)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._children():
            time.sleep(0.02)
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
            self._process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@/{database}?host={self.folder}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        return self._run("psql", "-h", str(self.folder), "-U", USER, "-d", database, "-Atqc", statement)

    def tool(self, name: str, *arguments: str) -> str:
        """pg_dump and its like, at this server."""
        return self._run(name, "-h", str(self.folder), "-U", USER, *arguments)

    def _children(self) -> list[str]:
        """Backends end by themselves once they notice that the postmaster is gone."""
        done = subprocess.run(["pgrep", "-f", f"postgres.*{self._data}"], capture_output=True, text=True, check=False)
        return done.stdout.split()

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            command = ["psql", "-h", str(self.folder), "-U", USER, "-Atqc", "select 1"]
            if (
                subprocess.run([str(self._bin / command[0]), *command[1:]], capture_output=True, check=False).returncode
                == 0
            ):
                return
            time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def _as_user(self) -> list[str]:
        return ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []

    def _run(self, name: str, *arguments: str) -> str:
        done = subprocess.run(
            [*self._as_user(), str(self._bin / name), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd="/",
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
        return done.stdout
