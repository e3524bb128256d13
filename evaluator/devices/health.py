"""What a GPU says of itself: clocks, temperature, throttling, and errors it had."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kernelmill.trace_schema.base import Json
from kernelmill.trace_schema.errors import InternalError


class Health:
    """Reads one GPU through NVML; where that is missing it says so in every trace and checks nothing."""

    def __init__(self, index: int) -> None:
        self._nvml: Any = None
        try:
            pynvml: Any = import_module("pynvml")
            pynvml.nvmlInit()
            self._device: Any = pynvml.nvmlDeviceGetHandleByIndex(index)
        except Exception:  # no library, no driver, no permission: NVML has an exception class for each
            return
        self._nvml = pynvml
        self._events = self._register()

    def _register(self) -> Any:
        events = self._nvml.nvmlEventSetCreate()
        try:
            self._nvml.nvmlDeviceRegisterEvents(self._device, self._nvml.nvmlEventTypeXidCriticalError, events)
        except self._nvml.NVMLError:  # virtual GPUs offer no events
            return None
        return events

    def versions(self) -> dict[str, str]:
        return {"driver": str(self._nvml.nvmlSystemGetDriverVersion())} if self._nvml else {}

    def state(self) -> dict[str, Json]:
        """Clocks in MHz, temperature in degrees Celsius, power in watts, reasons for throttling as a bit mask."""
        nvml: Any = self._nvml
        if nvml is None:
            return {"state": "unknown: nvidia-ml-py is not installed"}
        readings: dict[str, Callable[[], Json]] = {
            "sm_mhz": lambda: nvml.nvmlDeviceGetClockInfo(self._device, nvml.NVML_CLOCK_SM),
            "memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(self._device, nvml.NVML_CLOCK_MEM),
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(self._device, nvml.NVML_TEMPERATURE_GPU),
            "power_w": lambda: round(nvml.nvmlDeviceGetPowerUsage(self._device) / 1000),
            "throttle_reasons": lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._device),
        }
        found: dict[str, Json] = {}
        for name, read in readings.items():
            try:
                found[name] = read()
            except nvml.NVMLError:
                continue
        return found

    def check(self) -> None:
        """Raises InternalError after a critical error of the GPU that no worker's own fault explains."""
        if self._nvml is None or self._events is None:
            return
        try:
            event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
        except self._nvml.NVMLError:  # nothing happened
            return
        if event.eventData not in WORKERS_OWN:
            raise InternalError(
                f"the GPU reported Xid {event.eventData}; take it out of service until: nvidia-smi -q shows it healthy"
            )


WORKERS_OWN = (13, 31, 43, 45, 109)
"""Faults of a program: illegal instruction or address, page fault, its channel's end, a switch that took too long."""
