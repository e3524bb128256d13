"""Tensors in safetensors files: only the one that is asked for is read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kernelmill.trace_schema.errors import DatasetError

Framework = Literal["numpy", "torch"]
_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F4": "float4_e2m1",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
_NEEDS_TORCH = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1"})


class MissingBlob(DatasetError):
    """The file is not here: it was never fetched, or is a Git LFS pointer still."""


class Stored(NamedTuple):
    """What a file says of a tensor before it is read."""

    dtype: str
    shape: tuple[int, ...]


def describe(path: Path) -> dict[str, Stored]:
    """Every tensor in the file, by key; only its header is read."""
    with _opened(path, "numpy") as stream:
        return {key: _stored(stream.get_slice(key)) for key in stream.keys()}  # noqa: SIM118


def load(path: Path, key: str, framework: Framework | None) -> Any:
    """The tensor called `key`: of `framework`, else a numpy array, or a torch tensor where numpy lacks the dtype."""
    stored = describe(path)
    if key not in stored:
        raise DatasetError(f"{path} holds no tensor {key!r}; it holds {', '.join(sorted(stored)) or 'none'}")
    chosen: Framework = framework or ("torch" if stored[key].dtype in _NEEDS_TORCH else "numpy")
    with _opened(path, chosen) as stream:
        return stream.get_tensor(key)


def digest(path: Path) -> str:
    """Hex SHA-256 of the file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def encode(tensors: Mapping[str, Any]) -> bytes:
    """A safetensors file of numpy arrays or of torch tensors, one kind only. Equal tensors give equal bytes."""
    ordered = dict(sorted(tensors.items()))
    if not ordered:
        raise DatasetError("a blob needs at least one tensor")
    if all(type(tensor).__module__ == "numpy" for tensor in ordered.values()):
        from safetensors.numpy import save as save_arrays

        return save_arrays(ordered)
    from safetensors.torch import save

    return save({name: tensor.contiguous() for name, tensor in ordered.items()})


def _stored(part: Any) -> Stored:
    dtype = str(part.get_dtype())
    return Stored(_DTYPES.get(dtype, dtype), tuple(part.get_shape()))


def _opened(path: Path, framework: Framework) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, framework="np" if framework == "numpy" else "pt")
    except (SafetensorError, OSError) as error:
        raise DatasetError(f"{path} is no readable safetensors file: {error}; restore it") from error
