"""What the agents ask of a language model, and what they get: values that can be written down and played back."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, Protocol

from kernelmill.agents.outcome import Frozen
from kernelmill.trace_schema.errors import KernelMillError

CHARS_A_TOKEN = 3
"""For a reservation: fewer characters make a token in no text that a prompt holds for long."""


class ModelError(KernelMillError):
    """The model gave no reply: refused, failed, or not there. The call counts all the same."""


class ToolCall(Frozen):
    """A function that the model wants called; `arguments` is JSON text as the model wrote it, checked by nobody yet."""

    id: str
    name: str
    arguments: str


class Message(Frozen):
    """One turn. A tool's answer names its call."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


class Request(Frozen):
    """All that a reply may depend on."""

    messages: tuple[Message, ...]
    max_tokens: int = 8192
    temperature: float | None = None
    seed: int | None = None
    tools: tuple[dict[str, Any], ...] = ()
    """Function schemas: name, description, parameters (JSON Schema)."""

    def key(self, model: str) -> str:
        """SHA-256 of the model's name and everything asked."""
        text = json.dumps([model, self.model_dump(mode="json")], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def tokens_at_most(self) -> int:
        """Prompt and reply together, reckoned high."""
        chars = sum(len(one.content) + sum(len(call.arguments) for call in one.calls) for one in self.messages)
        return chars // CHARS_A_TOKEN + len(json.dumps(self.tools)) // CHARS_A_TOKEN + self.max_tokens + 16


class Usage(Frozen):
    """Tokens. None where the server did not say."""

    tokens_in: int | None = None
    tokens_out: int | None = None


class Reply(Frozen):
    """What came back. `finish`: stop, length, tools, or the server's own word."""

    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    finish: str = "stop"


class ChatModel(Protocol):
    """A model. `name` goes into configs and cassettes: no key in it."""

    name: str

    def complete(self, request: Request) -> Reply:
        """Raises ModelError."""
