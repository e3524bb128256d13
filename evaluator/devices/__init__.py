"""Where kernels run: the CPU of this host, or one of its NVIDIA GPUs, which is one judge's for as long as it lives."""

from __future__ import annotations

from kernelmill.evaluator.devices.base import Device, Lent, Named
from kernelmill.evaluator.devices.open import device_names, open_device, open_free

__all__ = ["Device", "Lent", "Named", "device_names", "open_device", "open_free"]
