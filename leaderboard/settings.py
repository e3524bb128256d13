"""The service's settings: environment variables `KERNELMILL_…`, listed in .env.example; options of commands win."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from kernelmill.trace_schema.errors import InternalError

GITHUB = "github"
SHORTEST_SECRET = 32


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
    public_url: str = ""
    """The address that people's browsers reach, without a path: providers send people back there. For sign-in only."""

    @property
    def state_folder(self) -> Path:
        return self.state.expanduser()

    @property
    def url(self) -> str:
        return self.database_url or f"sqlite:///{self.state_folder / 'kernelmill.db'}"

    @property
    def spool_folder(self) -> Path:
        return (self.spool or self.state / "spool").expanduser()

    @property
    def is_public_secure(self) -> bool:
        return self.public_url.startswith("https://")

    def check_sign_in(self) -> None:
        """Raises InternalError for settings that do not go together."""
        secret, cookie = self.oidc_client_secret.get_secret_value(), self.session_secret.get_secret_value()
        if not self.oidc_issuer:
            wrong = {
                "OIDC_CLIENT_ID is set without OIDC_ISSUER; set both, or none": bool(self.oidc_client_id or secret)
            }
        else:
            wrong = {
                "OIDC_ISSUER is set, but AUTH is off and asks nobody; turn it on, or unset the issuer": not self.auth,
                "OIDC_ISSUER is set without OIDC_CLIENT_ID; register the service with the provider, which gives one": (
                    not self.oidc_client_id
                ),
                "OIDC_ISSUER is github, which needs OIDC_CLIENT_SECRET; make one in the OAuth app's settings": (
                    self.oidc_issuer == GITHUB and not secret
                ),
                "OIDC_ISSUER is neither github nor an https:// address (http:// on this host) without a query": (
                    self.oidc_issuer != GITHUB and not is_trusted_url(self.oidc_issuer)
                ),
                "PUBLIC_URL must be the service's https:// address without a path (http:// on this host only)": (
                    not is_trusted_url(self.public_url) or urlsplit(self.public_url).path not in ("", "/")
                ),
                f"SESSION_SECRET is shorter than {SHORTEST_SECRET} characters; take one of: openssl rand -hex 32": (
                    0 < len(cookie) < SHORTEST_SECRET
                ),
            }
        for text, is_so in wrong.items():
            if is_so:
                raise InternalError(f"sign-in can't work: KERNELMILL_{text}")


def is_loopback(host: str) -> bool:
    """Whether only this host can reach it."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_trusted_url(url: str) -> bool:
    """Nobody on the way can read or change what is said to it. No user, query or fragment, and no `|`."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        parts.port  # noqa: B018 - raises for what is no port
    except ValueError:
        return False
    is_plain = url.isascii() and url.isprintable() and not set(url) & set("?#@|\\ ")
    return is_plain and bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))
