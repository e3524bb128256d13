"""Where kernels run: the CPU of this host, or one of its NVIDIA GPUs, which is one judge's for as long as it lives."""

from __future__ import annotations

from kernelmill.evaluator.devices.base import Device, Lent
from kernelmill.evaluator.devices.open import open_device

__all__ = ["Device", "Lent", "open_device"]
