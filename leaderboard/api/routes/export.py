"""`/export`: everything public, whole: verdicts as Parquet, or all of it in the dataset's layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from fastapi import APIRouter
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from kernelmill.leaderboard import exports
from kernelmill.leaderboard.api.context import Reader, TheService
from kernelmill.leaderboard.api.replies import Filter

router = APIRouter(tags=["export"])
PARQUET = "application/vnd.apache.parquet"
ARCHIVE = "application/gzip"


@router.get(
    "/export/traces.parquet",
    response_class=FileResponse,
    responses={200: {"content": {PARQUET: {"schema": {"type": "string", "format": "binary"}}}}},
)
def parquet(service: TheService, who: Reader, definition: Filter = None, device_model: Filter = None) -> FileResponse:
    """Ranked, public traces: one row each, with the whole trace as JSON in `trace`."""
    return _file(
        "traces.parquet",
        PARQUET,
        lambda path: exports.write_parquet(
            service.database, path, definition, device_model, most=service.settings.max_export_rows
        ),
    )


@router.get(
    "/export/dataset.tar.gz",
    response_class=FileResponse,
    responses={200: {"content": {ARCHIVE: {"schema": {"type": "string", "format": "binary"}}}}},
)
def dataset(service: TheService, who: Reader, definition: Filter = None) -> FileResponse:
    """Definitions, public workloads, solutions and traces as files that `kernelmill run` and `report` read."""
    return _file(
        "dataset.tar.gz",
        ARCHIVE,
        lambda path: exports.write_dataset(service.database, path, definition, most=service.settings.max_export_rows),
    )


def _file(name: str, media: str, write: Callable[[Path], None]) -> FileResponse:
    """Written whole before it is sent: an error in the middle is still an error."""
    folder = TemporaryDirectory(prefix="kernelmill-export-")
    path = Path(folder.name) / name
    try:
        write(path)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(path, media_type=media, filename=name, background=BackgroundTask(folder.cleanup))
