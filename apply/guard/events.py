"""What happened, one JSON object a line, appended to a file that outlives the process."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


class Events:
    """Appends whole lines. A disk that is full is told once on stderr and never to the model."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._is_broken = False

    def write(self, kind: str, **facts: Any) -> None:
        line = json.dumps({"time": round(time.time(), 3), "pid": os.getpid(), "event": kind, **facts}, default=str)
        if self.path is None or self._is_broken:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(line + "\n")
        except OSError as error:
            self._is_broken = True
            print(f"kernelmill: no events are kept: {self.path}: {error}", file=sys.stderr)
