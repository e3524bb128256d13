"""The operator's ed25519 key pair, as PEM files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kernelmill.apply.errors import ApplyError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PRIVATE = "operator.key"
PUBLIC = "operator.pub"


def make_keys(folder: Path) -> tuple[Path, Path]:
    """Writes a new pair; the private one can be read by its owner only. Raises ApplyError where there is one."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public = folder / PRIVATE, folder / PUBLIC
    for path in (private, public):
        if path.exists():
            raise ApplyError(f"{path} is there already: a new key would void every approval; move the old one away")
    folder.mkdir(parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    public.write_bytes(key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def read_private(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(_bytes(path), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ApplyError(f"{path} holds no ed25519 key; make one with: kernelmill apply keygen")
    return key


def read_public(path: Path) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(_bytes(path))
    except ValueError as error:
        raise ApplyError(f"{path} holds no public key: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ApplyError(f"{path} holds no ed25519 key; name the operator's: KERNELMILL_APPLY_TRUST")
    return key


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ApplyError(
            f"the key {path} cannot be read ({error.strerror}); make it with: kernelmill apply keygen"
        ) from None
