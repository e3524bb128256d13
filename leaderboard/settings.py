"""The service's settings: environment variables `KERNELMILL_…`, listed in .env.example; options of commands win."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Read once, at a command's start, and passed in. An empty variable counts as one that is not set."""

    model_config = SettingsConfigDict(env_prefix="KERNELMILL_", env_ignore_empty=True, extra="ignore", frozen=True)

    state: Path = Path("~/.local/state/kernelmill")
    """Folder of the embedded database and of the first administrator's token."""
    database_url: str = ""
    """sqlite:///… or postgresql://…; a file in `state` if empty."""
    auth: bool = True
    """Off: everybody who reaches the port may do everything, so it may be reached from this host only."""
    allowed_hosts: str = ""
    """Names by which the service is addressed, with commas; without any, every name where auth is on."""
    max_body_bytes: int = 10_000_000
    max_export_rows: int = 2_000_000
    read_rate: str = "1200/minute"
    """For each address or author; in the notation of the `limits` library."""
    write_rate: str = "120/minute"
    quota_per_hour: int = 60
    """Submissions of one author on one device model; `kernelmill admin quota` changes single ones."""
    max_waiters: int = 200
    """Long polls and event streams at once."""
    lease_s: float = 60.0
    attempts: int = 3
    """How often a submission is begun before it has failed for good."""
    executor: Literal["local", "ray", "none"] = "local"
    device: str = "auto"
    ray_address: str | None = None
    spool: Path | None = None
    """Where a submission's own dataset lies while it is judged; on a cluster a folder that all nodes share."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    oidc_issuer: str = ""
    """Sign-in for people: the identity provider's issuer URL, or `github`."""
    oidc_client_id: str = ""
    oidc_client_secret: SecretStr = SecretStr("")
    session_secret: SecretStr = SecretStr("")
    """Signs the cookie of who signed in; made up at each start if empty, which signs everybody out."""

    @property
    def state_folder(self) -> Path:
        return self.state.expanduser()

    @property
    def url(self) -> str:
        return self.database_url or f"sqlite:///{self.state_folder / 'kernelmill.db'}"

    @property
    def spool_folder(self) -> Path:
        return (self.spool or self.state / "spool").expanduser()
