"""Anthropic's messages API by its SDK. Extra: `agents`."""

from __future__ import annotations

import json
from typing import Any

from kernelmill.agents.models.base import Message, ModelError, Reply, Request, ToolCall, Usage
from kernelmill.agents.models.openai import RETRIES, TIMEOUT_S


class AnthropicModel:
    """One model. The key comes from ANTHROPIC_API_KEY and is never kept."""

    def __init__(self, model: str, *, base_url: str = "", api_key: str = "", timeout_s: float = TIMEOUT_S) -> None:
        """Raises ModelError where the SDK is not installed."""
        try:
            from anthropic import Anthropic
        except ImportError as error:
            raise ModelError("the anthropic SDK is not installed; pip install 'kernelmill[agents]'") from error
        self.name = f"anthropic:{model}"
        self._model = model
        self._client = Anthropic(
            base_url=base_url or None, api_key=api_key or None, timeout=timeout_s, max_retries=RETRIES
        )

    def complete(self, request: Request) -> Reply:
        from anthropic import AnthropicError

        options: dict[str, Any] = {}
        system = "\n\n".join(one.content for one in request.messages if one.role == "system")
        if system:  # the task stays the same from call to call, so it may be cached
            options["system"] = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
        if request.temperature is not None:
            options["temperature"] = request.temperature
        if request.tools:
            options["tools"] = [
                {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
                for tool in request.tools
            ]
        try:
            made = self._client.messages.create(
                model=self._model,
                max_tokens=request.max_tokens,
                messages=[_turn(one) for one in request.messages if one.role != "system"],
                **options,
            )
        except (AnthropicError, ValueError, TypeError) as error:  # TypeError: the SDK's word for a missing key
            raise ModelError(f"{type(error).__name__}: {str(error)[:300]}") from error
        return _reply(made)


def _turn(message: Message) -> Any:
    if message.role == "tool":
        block = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.content}
        return {"role": "user", "content": [block]}
    if message.calls:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": message.content}] if message.content else []
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments or "{}")}
            for call in message.calls
        ]
        return {"role": "assistant", "content": blocks}
    return {"role": message.role, "content": message.content}


def _reply(made: Any) -> Reply:
    texts = [block.text for block in made.content if block.type == "text"]
    calls = tuple(
        ToolCall(id=block.id, name=block.name, arguments=json.dumps(block.input))
        for block in made.content
        if block.type == "tool_use"
    )
    finish = {"max_tokens": "length", "tool_use": "tools"}.get(made.stop_reason or "", "stop")
    usage = Usage(tokens_in=made.usage.input_tokens, tokens_out=made.usage.output_tokens)
    return Reply(content="".join(texts), calls=calls, usage=usage, finish=finish)
