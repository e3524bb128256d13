"""Models that are no models: a list of replies, a function, a recording."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from kernelmill.agents.models.base import ChatModel, ModelError, Reply, Request
from kernelmill.agents.redaction import redacted, secrets_of


class Scripted:
    """Gives these replies in turn, whatever is asked; then raises ModelError."""

    name = "scripted"

    def __init__(self, replies: Iterable[Reply | str]) -> None:
        self._replies = iter(replies)
        self.requests: list[Request] = []

    def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        reply = next(self._replies, None)
        if reply is None:
            raise ModelError("the script has ended")
        return Reply(content=reply) if isinstance(reply, str) else reply


class Function:
    """Replies by a function of the request."""

    def __init__(self, answer: Callable[[Request], Reply | str], name: str = "function") -> None:
        self.name, self._answer = name, answer

    def complete(self, request: Request) -> Reply:
        reply = self._answer(request)
        return Reply(content=reply) if isinstance(reply, str) else reply


class Recording:
    """Asks a model and writes each pair of request and reply into a cassette: one JSON object a line, no headers."""

    def __init__(self, model: ChatModel, cassette: Path) -> None:
        self.name, self._model, self._cassette = model.name, model, cassette

    def complete(self, request: Request) -> Reply:
        reply = self._model.complete(request)
        line = {"key": request.key(self.name), "reply": redacted(reply.model_dump(mode="json"), secrets_of())}
        with self._cassette.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, sort_keys=True) + "\n")
        return reply


class Cassette:
    """Plays a recording back, strictly: what was not asked then raises ModelError; the same again takes the next."""

    def __init__(self, cassette: Path, name: str) -> None:
        self.name = name
        self._path = cassette
        self._replies: dict[str, list[Reply]] = {}
        for line in cassette.read_text(encoding="utf-8").splitlines():
            raw = json.loads(line)
            self._replies.setdefault(raw["key"], []).append(Reply.model_validate(raw["reply"]))

    def complete(self, request: Request) -> Reply:
        waiting = self._replies.get(request.key(self.name), [])
        if not waiting:
            raise ModelError(f"{self._path} holds no reply to this request; record it anew")
        return waiting.pop(0)
