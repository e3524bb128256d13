"""OpenAI-compatible endpoints by the openai SDK: OpenAI, vLLM, SGLang, llama.cpp, gateways. Extra: `agents`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelmill.agents.models.base import Message, ModelError, Reply, Request, ToolCall, Usage

if TYPE_CHECKING:
    from openai import OpenAI

TIMEOUT_S = 600.0
RETRIES = 2
NO_KEY = "none"
"""Local servers ask for none, and the SDK insists on one."""


class OpenAIModel:
    """One model behind one base URL. The key comes from OPENAI_API_KEY and is never kept."""

    def __init__(self, model: str, *, base_url: str = "", api_key: str = "", timeout_s: float = TIMEOUT_S) -> None:
        """Raises ModelError where the SDK is not installed or no endpoint can be meant."""
        try:
            from openai import OpenAI, OpenAIError
        except ImportError as error:
            raise ModelError("the openai SDK is not installed; pip install 'kernelmill[agents]'") from error
        self.name = f"openai:{model}"
        self._model = model
        key = api_key or (NO_KEY if base_url else "")
        try:
            self._client: OpenAI = OpenAI(
                base_url=base_url or None, api_key=key or None, timeout=timeout_s, max_retries=RETRIES
            )
        except OpenAIError as error:
            raise ModelError(
                f"no endpoint: {error}; set OPENAI_API_KEY, or give --base-url of a local server"
            ) from error

    def complete(self, request: Request) -> Reply:
        from openai import OpenAIError

        options: dict[str, Any] = {"max_tokens": request.max_tokens}
        if request.temperature is not None:
            options["temperature"] = request.temperature
        if request.seed is not None:
            options["seed"] = request.seed
        if request.tools:
            options["tools"] = [{"type": "function", "function": tool} for tool in request.tools]
        try:
            made = self._client.chat.completions.create(
                model=self._model, messages=[_turn(one) for one in request.messages], **options
            )
        except (OpenAIError, ValueError) as error:  # ValueError: a body that is no JSON
            raise ModelError(f"{type(error).__name__}: {str(error)[:300]}") from error
        return _reply(made)


def _turn(message: Message) -> Any:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        turn["tool_call_id"] = message.call_id
    if message.calls:
        turn["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    return turn


def _reply(made: Any) -> Reply:
    """Tolerates servers that leave usage, content or tool calls out. Raises ModelError where there is no choice."""
    choices = getattr(made, "choices", None)
    if not choices or getattr(choices[0], "message", None) is None:
        raise ModelError("the server's answer holds no message")
    message, usage = choices[0].message, getattr(made, "usage", None)
    calls = tuple(
        ToolCall(id=str(call.id), name=str(call.function.name), arguments=str(call.function.arguments or ""))
        for call in (message.tool_calls or ())
        if getattr(call, "function", None) is not None
    )
    return Reply(
        content=message.content if isinstance(message.content, str) else "",
        calls=calls,
        usage=Usage(
            tokens_in=getattr(usage, "prompt_tokens", None), tokens_out=getattr(usage, "completion_tokens", None)
        ),
        finish=str(choices[0].finish_reason or "stop"),
    )
