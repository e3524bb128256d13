"""What the service refuses, by the reply that it is answered with. The text is for the one who asked."""

from __future__ import annotations

from dataclasses import dataclass

from kernelmill.trace_schema.errors import KernelMillError


@dataclass(frozen=True, slots=True)
class FieldFault:
    """Which field of a request is wrong, as a path with dots, and how."""

    field: str
    message: str


class Refused(KernelMillError):
    """A request that can't be done. `status` is its HTTP status."""

    status = 400
    title = "Bad request"

    def __init__(self, detail: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after_s = retry_after_s


class Invalid(Refused):
    """Fields that can't be accepted."""

    status = 422
    title = "Invalid request"

    def __init__(self, field: str, message: str, *more: FieldFault) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.faults = (FieldFault(field, message), *more)


class Unauthorized(Refused):
    status = 401
    title = "Token needed"


class Forbidden(Refused):
    status = 403
    title = "Not allowed"


class NotFound(Refused):
    status = 404
    title = "Not found"


class Conflict(Refused):
    status = 409
    title = "Conflict"


class TooMany(Refused):
    status = 429
    title = "Too many requests"
