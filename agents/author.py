"""Asks a model for a kernel: metered, journaled, and a reply without a solution is paid for too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernelmill.agents import feedback
from kernelmill.agents.attempt import Proposal
from kernelmill.agents.budget import Exhausted
from kernelmill.agents.journal import Journal
from kernelmill.agents.models.base import ChatModel, Message, ModelError, Reply, Request
from kernelmill.agents.models.opening import Price
from kernelmill.agents.replies import FormatError, read_reply
from kernelmill.agents.strategies.base import History
from kernelmill.agents.tools.box import Toolbox
from kernelmill.trace_schema import Definition

LEAST_TOKENS = 256
"""A reply cut shorter than this holds no kernel."""
TOOL_ROUNDS = 6


@dataclass(slots=True)
class Author:
    """One model at work on one definition."""

    model: ChatModel
    definition: Definition
    kind: str
    journal: Journal
    price: Price = field(default_factory=Price)
    seed: int = 0
    max_tokens: int = 8192
    tools: Toolbox | None = None
    asked: int = 0
    trouble: str = ""
    """Why the last reply was none; told to the model once."""

    def write(self, history: History, told: str, parents: tuple[int, ...] = ()) -> Proposal | None:
        """A proposal, or None where the reply holds none. Raises Exhausted."""
        history.budget.check(format_errors=0.0 if history.budget.left("format_errors") else 1e-9)
        note = f"Your last reply could not be used: {self.trouble}.\n" if self.trouble else ""
        messages = [
            Message(role="system", content=feedback.task(self.definition, self.kind)),
            Message(role="user", content=note + told),
        ]
        try:
            reply = self._conversed(history, messages)
            name = self.model.name.replace(":", "-").replace("/", "-").replace(" ", "-")
            solution, idea = read_reply(reply.content, self.definition, self.kind, name)
        except (FormatError, ModelError) as error:
            self.trouble = str(error)[:200]
            history.budget.sync(format_errors=history.budget.used["format_errors"] + 1)
            return None
        self.trouble = ""
        history.budget.sync(format_errors=0)
        return Proposal(solution, idea, parents)

    def _conversed(self, history: History, messages: list[Message]) -> Reply:
        """The last reply, after the tools that the model called."""
        for _ in range(TOOL_ROUNDS):
            reply = self._reply(history, messages)
            if not reply.calls or self.tools is None:
                return reply
            messages.append(Message(role="assistant", content=reply.content, calls=reply.calls))
            for call in reply.calls:
                answer = self.tools.answered(call.name, call.arguments, self.journal, history)
                messages.append(Message(role="tool", content=answer, call_id=call.id))
        raise FormatError(f"it called tools {TOOL_ROUNDS} times and gave no solution")

    def _reply(self, history: History, messages: list[Message]) -> Reply:
        self.asked += 1
        request = self._affordable(history, messages)
        most = request.tokens_at_most
        reserve = {"model_calls": 1.0, "tokens": float(most), "money": self.price.at_most(most)}
        with history.budget.reserved(**reserve) as spent:
            asked = {"model": self.model.name, "request": request.model_dump(mode="json")}
            event = self.journal.perform("model", asked, lambda: self._answer(request))
            reply = Reply.model_validate(event.answered["reply"])
            usage = reply.usage
            if usage.tokens_in is not None and usage.tokens_out is not None:  # else: what was reserved
                spent["tokens"] = float(usage.tokens_in + usage.tokens_out)
                spent["money"] = self.price.of(usage)
        history.budget.sync(wall_s=self.journal.elapsed_s)
        if event.answered["error"]:
            raise ModelError(event.answered["error"])
        return reply

    def _affordable(self, history: History, messages: list[Message]) -> Request:
        """The reply is as long as the budget of tokens allows. Raises Exhausted."""
        tools = tuple(self.tools.schemas()) if self.tools else ()
        full = Request(messages=tuple(messages), max_tokens=self.max_tokens, seed=self.seed + self.asked, tools=tools)
        over = full.tokens_at_most - history.budget.left("tokens")
        if over <= 0:
            return full
        if full.max_tokens - over < LEAST_TOKENS:
            limit = history.budget.limits.tokens or 0
            raise Exhausted("tokens", history.budget.used["tokens"], limit)
        return full.model_copy(update={"max_tokens": int(full.max_tokens - over)})

    def _answer(self, request: Request) -> dict[str, Any]:
        try:
            reply, error = self.model.complete(request), ""
        except ModelError as failure:
            reply, error = Reply(), str(failure) or "the model failed"
        return {"reply": reply.model_dump(mode="json"), "error": error}
