"""The real SDKs against a loopback server; what it may leave out, and how it may fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernelmill.agents.budget import UsageError
from kernelmill.agents.models.base import Message, ModelError, Request, Usage
from kernelmill.agents.models.opening import open_model, read_price
from tests.agents import toy
from tests.agents.server import call, completion, serving
from tests.agents.stand_ins import block
from tests.agents.test_strategies import write

REQUEST = Request(messages=(Message(role="system", content="s"), Message(role="user", content="u")), seed=4)


@pytest.fixture(autouse=True)
def sdk() -> None:
    pytest.importorskip("openai", reason="the extra `agents` is not installed")
    pytest.importorskip("anthropic", reason="the extra `agents` is not installed")


def test_a_local_server_needs_no_key() -> None:
    with serving(lambda body: (200, completion("hello"))) as (url, seen):
        reply = open_model("openai:fake", url).complete(REQUEST)
    assert (reply.content, reply.usage) == ("hello", Usage(tokens_in=7, tokens_out=3))
    assert [turn["content"] for turn in seen[0]["messages"]] == ["s", "u"]
    assert (seen[0]["model"], seen[0]["seed"]) == ("fake", 4)


def test_usage_and_content_may_be_missing() -> None:
    with serving(lambda body: (200, completion(None, usage=False))) as (url, _):
        reply = open_model("openai:fake", url).complete(REQUEST)
    assert (reply.content, reply.usage) == ("", Usage())


def test_tool_calls_come_as_they_were_written() -> None:
    with serving(lambda body: (200, completion(None, calls=[call("benchmark", "{not json")]))) as (url, seen):
        tools = ({"name": "benchmark", "description": "d", "parameters": {"type": "object", "properties": {}}},)
        reply = open_model("openai:fake", url).complete(REQUEST.model_copy(update={"tools": tools}))
    assert [(one.name, one.arguments) for one in reply.calls] == [("benchmark", "{not json")]
    assert seen[0]["tools"][0]["function"]["name"] == "benchmark"


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (429, {"error": {"message": "slow down"}}, "RateLimitError"),
        (500, {"error": {"message": "oh"}}, "InternalServerError"),
        (401, {"error": {"message": "who?"}}, "AuthenticationError"),
        (200, "{", "JSON|Expecting"),
        (200, {"choices": []}, "no message"),
    ],
)
def test_failures_are_model_errors(status: int, body: Any, told: str) -> None:
    with serving(lambda _: (status, body)) as (url, _), pytest.raises(ModelError, match=told):
        open_model("openai:fake", url).complete(REQUEST)


def test_a_server_that_is_not_there_is_a_model_error() -> None:
    with serving(lambda _: (200, {})) as (url, _):
        pass
    with pytest.raises(ModelError, match="Connection"):
        open_model("openai:fake", url).complete(REQUEST)


def test_the_other_provider_speaks_its_own_protocol() -> None:
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "t", "name": "submit", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 2},
    }
    from kernelmill.agents.models.anthropic import AnthropicModel

    with serving(lambda _: (200, body)) as (url, seen):
        reply = AnthropicModel("fake", base_url=url.removesuffix("/v1"), api_key="test").complete(REQUEST)
    assert (reply.content, reply.finish, json.loads(reply.calls[0].arguments)) == ("hi", "tools", {"a": 1})
    assert seen[0]["system"][0]["text"] == "s" and [turn["role"] for turn in seen[0]["messages"]] == ["user"]


def test_a_whole_run_through_the_sdk_keeps_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefghijklmnopqrstuvwx")
    with serving(lambda body: (200, completion(block(toy.source(6, 3), idea="best")))) as (url, _):
        result = write(tmp_path, "greedy", open_model("openai:fake", url), steps=2)
    assert result.improved and result.used["tokens"] == 20
    texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(texts) > 3 and not any("abcdefghijklmnopqrstuvwx" in text or "Bearer" in text for text in texts)


def test_what_is_no_model_or_price_is_refused() -> None:
    with pytest.raises(UsageError, match="PROVIDER:NAME"):
        open_model("gpt")
    with pytest.raises(UsageError, match="IN,OUT"):
        read_price("cheap")
