"""The signed list of approved kernels: for each the hash of its source, and of every file that was built from it."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from kernelmill.apply.errors import ApplyError
from kernelmill.apply.table import Frozen, write

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

MANIFEST = "manifest.json"


class Approval(Frozen):
    """One kernel that may run, as it was built from source on the operator's side."""

    solution_hash: str
    solution: str
    definition: str
    language: str
    kind: Literal["python", "triton", "tvm-ffi", "torch"]
    entry: str
    symbol: str
    destination_passing: bool
    files: dict[str, str]
    """SHA-256 by path below `kernels/<solution_hash>`."""
    approved_at: str
    reviewed: bool
    """Whether the operator said that the source was read: python is not confined by a list of symbols."""


class Manifest(Frozen):
    format: Literal[1] = 1
    approvals: tuple[Approval, ...] = ()
    signature: str = ""

    def signed_bytes(self) -> bytes:
        content = self.model_dump(mode="json", exclude={"signature"})
        return b"kernelmill apply manifest\n" + json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

    def approval(self, solution_hash: str) -> Approval | None:
        return next((one for one in self.approvals if one.solution_hash == solution_hash), None)


def sign(manifest: Manifest, key: Ed25519PrivateKey) -> Manifest:
    return manifest.model_copy(update={"signature": base64.b64encode(key.sign(manifest.signed_bytes())).decode()})


def read_manifest(home: Path, key: Ed25519PublicKey) -> Manifest:
    """The manifest, empty where nothing was approved. Raises ApplyError unless `key` signed it."""
    from cryptography.exceptions import InvalidSignature

    path = home / MANIFEST
    if not path.exists():
        return Manifest()
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
        key.verify(base64.b64decode(manifest.signature, validate=True), manifest.signed_bytes())
    except (OSError, ValidationError, ValueError) as error:
        raise ApplyError(f"{path} cannot be read: {error}; approve again: kernelmill apply approve") from error
    except InvalidSignature:
        raise ApplyError(
            f"{path} is not signed by the key that this host trusts: it was changed, or is another operator's; "
            "nothing of it runs"
        ) from None
    return manifest


def save_manifest(home: Path, manifest: Manifest, key: Ed25519PrivateKey) -> None:
    write(home / MANIFEST, sign(manifest, key))


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 by path of all files below `folder`; a link or a device has a digest that no file has."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            found[path.relative_to(folder).as_posix()] = "not a regular file"
        elif path.is_file():
            found[path.relative_to(folder).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
