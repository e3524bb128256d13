"""How a solution came to be, as an agent tells it: in words at the end of its description, and read out of them again.

The schema has no field for it, and a description goes wherever its solution goes. It is the agent's own word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_WORDS = re.compile(
    r"kernelmill agent (?P<version>[^;]{1,100}); strategy (?P<strategy>[^;]{1,100}); model (?P<model>[^;]{1,200}); "
    rf"evaluations (?P<evaluations>{_NUMBER}); tokens (?P<tokens>{_NUMBER}); cost (?P<cost>{_NUMBER}) USD$"
)


@dataclass(frozen=True, slots=True)
class Making:
    """Harness, strategy and model; what was used of evaluations, tokens and money, in US dollars."""

    version: str
    strategy: str
    model: str
    evaluations: float
    tokens: float
    cost_usd: float

    def words(self) -> str:
        return "; ".join(
            [
                f"kernelmill agent {self.version}",
                f"strategy {self.strategy}",
                f"model {self.model}",
                f"evaluations {self.evaluations:.12g}",
                f"tokens {self.tokens:.12g}",
                f"cost {self.cost_usd:.12g} USD",
            ]
        )

    @classmethod
    def read(cls, description: str | None) -> Self | None:
        """None where no such words end it."""
        found = _WORDS.search(description or "")
        if found is None:
            return None
        used = (float(found[name]) for name in ("evaluations", "tokens", "cost"))
        return cls(found["version"], found["strategy"], found["model"], *used)
