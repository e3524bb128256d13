"""From `provider:name` to a model, and what its tokens cost."""

from __future__ import annotations

from kernelmill.agents.budget import UsageError
from kernelmill.agents.models.base import ChatModel, Usage
from kernelmill.agents.outcome import Frozen

PROVIDERS = ("openai", "anthropic")


class Price(Frozen):
    """US dollars for a million tokens. None are shipped: who sets a money budget says what a token costs."""

    tokens_in: float = 0.0
    tokens_out: float = 0.0

    def of(self, usage: Usage) -> float:
        return ((usage.tokens_in or 0) * self.tokens_in + (usage.tokens_out or 0) * self.tokens_out) / 1e6

    def at_most(self, tokens: int) -> float:
        return tokens * max(self.tokens_in, self.tokens_out) / 1e6


def open_model(text: str, base_url: str = "") -> ChatModel:
    """Raises UsageError for another provider, ModelError where its SDK or its key is missing."""
    provider, separator, name = text.partition(":")
    if not separator or provider not in PROVIDERS or not name:
        raise UsageError(f"--model {text!r} is not PROVIDER:NAME with a provider of {', '.join(PROVIDERS)}")
    if provider == "anthropic":
        from kernelmill.agents.models.anthropic import AnthropicModel

        return AnthropicModel(name, base_url=base_url)
    from kernelmill.agents.models.openai import OpenAIModel

    return OpenAIModel(name, base_url=base_url)


def read_price(text: str) -> Price:
    """`IN,OUT` in US dollars for a million tokens. Raises UsageError."""
    try:
        tokens_in, tokens_out = (float(part) for part in text.split(","))
        return Price(tokens_in=tokens_in, tokens_out=tokens_out)
    except ValueError as error:
        raise UsageError(f"--price {text!r} is not IN,OUT: US dollars for a million tokens") from error
