"""Comparison of samplers: each token must be in the support, and all tokens together must follow the distribution.

Support: with top-p, a token is allowed if the probability of all strictly likelier tokens is below p (+ SLACK for
float32 sums), which admits the token that crosses p and, among equal ones, any. With top-k, if fewer than k tokens are
strictly likelier; with both, p is a share of what top-k leaves. With min-p, if its probability is at least min-p times
the largest (less SLACK of that).

Distribution: with tokens ordered by falling probability, a right sampler's randomised cumulative value
U = F(before token) + V * P(token), V uniform, is uniform on [0, 1] whatever the row's distribution was. So the calls of
a whole evaluation, each with other inputs, form one sample, tested by Kolmogorov-Smirnov at FALSE_REJECT.

The same holds of any other order. By probability, a sampler that reads only part of the vocabulary looks right, as that
part's probabilities are distributed like all; so tokens are also ordered by their id, and by its remainder modulo each
power of two up to STRIDE, which finds out who reads one part, or one lane or block in so many. FALSE_REJECT is for all
orders together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from kernelmill.evaluator.compare.base import PASSED, Comparator, Expectation, Finding, Truth, wrong
from kernelmill.evaluator.compare.defaults import tensor_names
from kernelmill.trace_schema import Definition, Verdict
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.evaluator.case import Case

SLACK = 1e-5
LIMITS = ("top_p", "top_k", "min_p")
FALSE_REJECT = 1e-7
"""How often a right sampler may fail the distribution test."""
STRIDE = 4096
"""The longest pattern of tokens read and skipped that is looked for; longer ones, the order by id shows."""
MASS_OF_TIES = 1e-3
"""Rows in which more than this share of the support is open, as equal tokens lie at its edge of which a right sampler
may keep any, say nothing about the distribution."""


class SamplingExpectation(Expectation):
    """Sorted probabilities and the size of the support, by row."""

    def __init__(self, samples: str, probs: torch.Tensor, limits: Mapping[str, torch.Tensor]) -> None:
        """`limits`: top_p, top_k and min_p, each one a row, where there are such."""
        self._samples = samples
        self.probs = probs.double()
        self._sorted, _ = torch.sort(self.probs, dim=-1, descending=True)
        self._before = self._sorted.cumsum(-1) - self._sorted
        keep = torch.ones_like(self._sorted, dtype=torch.bool)
        whole: torch.Tensor | float = 1.0
        if (top_k := limits.get("top_k")) is not None:
            keep &= torch.arange(keep.shape[-1], device=keep.device).reshape(1, -1) < top_k.reshape(-1, 1)
            whole = torch.where(keep, self._sorted, 0.0).sum(-1, keepdim=True)
        if (top_p := limits.get("top_p")) is not None:
            keep &= self._before < (top_p.double().reshape(-1, 1) + SLACK) * whole
        if (min_p := limits.get("min_p")) is not None:
            keep &= self._sorted >= min_p.double().reshape(-1, 1) * self._sorted[:, :1] * (1 - SLACK)
        keep[:, 0] = True
        self._threshold = torch.where(keep, self._sorted, torch.inf).amin(-1)
        self._mass = torch.where(keep, self._sorted, 0.0).sum(-1)

    @property
    def allowed(self) -> torch.Tensor:
        """Whether a token may be sampled, [rows, vocabulary]."""
        return (self.probs >= self._threshold.unsqueeze(-1)) & (self.probs > 0)

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> Finding:
        tokens = outputs[self._samples].long().flatten()
        vocabulary = self.probs.shape[-1]
        outside = (tokens < 0) | (tokens >= vocabulary)
        if bool(outside.any()):
            return wrong(f"{int(outside.sum())} sampled ids lie outside the vocabulary of {vocabulary}")
        lost = ~self.allowed.gather(1, tokens.reshape(-1, 1))
        if bool(lost.any()):
            return wrong(f"{int(lost.sum())} of {len(tokens)} sampled ids are not in the support")
        return PASSED

    def uniforms(self, outputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The randomised cumulative values of the sampled tokens, [orders, rows]."""
        tokens = outputs[self._samples].long().reshape(-1, 1)
        likely = torch.where(self.allowed, self.probs, 0.0)
        chosen = likely.gather(1, tokens).flatten()
        before = torch.where(self._sorted > chosen.unsqueeze(-1), self._sorted, 0.0).sum(-1)
        ties = (self._sorted == chosen.unsqueeze(-1)).sum(-1)
        earlier = likely.cumsum(-1).gather(1, tokens).flatten() - chosen
        starts, widths = zip((before, chosen * ties), (earlier, chosen), *by_remainder(likely, tokens), strict=True)
        start, width = torch.stack(starts), torch.stack(widths)
        mass = likely.sum(-1)
        ambiguous = mass > (1 + MASS_OF_TIES) * self._mass
        values = (start + torch.rand_like(start) * width) / mass
        return torch.where(ambiguous, torch.rand_like(values), values)


def by_remainder(likely: torch.Tensor, tokens: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Of each power of two, longest first: the probability of smaller remainders than the token's, and of its own.

    `likely` is [rows, vocabulary], `tokens` [rows, 1].
    """
    rows, vocabulary = likely.shape
    period = STRIDE
    folded = torch.nn.functional.pad(likely, (0, -vocabulary % period)).reshape(rows, -1, period).sum(1)
    while period > 1:
        own = folded.gather(1, tokens % period)
        yield (folded.cumsum(-1).gather(1, tokens % period) - own).flatten(), own.flatten()
        period //= 2
        folded = folded.reshape(rows, 2, period).sum(1)


class Sampling(Comparator):
    """Comparator kind "sampling". Params name the tensors: probs, samples, and what there is of top_p, top_k, min_p."""

    needs_reference = False

    def __init__(self, definition: Definition, params: Mapping[str, Any]) -> None:
        self._names = tensor_names(definition, params, "probs", "samples", *LIMITS)
        if not {"probs", "samples"} <= self._names.keys():
            raise DatasetError(
                f"{definition.name}: comparator sampling needs params probs and samples, got {dict(params)}"
            )

    def prepare(self, case: Case, inputs: Mapping[str, torch.Tensor], truth: Truth | None) -> Expectation:
        limits = {role: inputs[name] for role, name in self._names.items() if role in LIMITS}
        return SamplingExpectation(self._names["samples"], inputs[self._names["probs"]], limits)

    def agree(self, outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> bool | None:
        return None

    def conclude(
        self, findings: list[tuple[Expectation, Mapping[str, torch.Tensor]]]
    ) -> tuple[Finding, dict[str, Any]]:
        values = [e.uniforms(outputs) for e, outputs in findings if isinstance(e, SamplingExpectation)]
        if not values:
            return PASSED, {}
        orders = torch.cat(values, dim=1)
        p_value = min(1.0, len(orders) * min(ks_uniform(order) for order in orders))
        extra = {"distribution_p_value": p_value, "samples": orders.shape[1]}
        strain = math.log(max(p_value, 1e-300)) / math.log(FALSE_REJECT)
        if p_value < FALSE_REJECT:
            reason = f"the sampled ids do not follow the distribution (Kolmogorov-Smirnov p = {p_value:.2g})"
            return Finding(Verdict.INCORRECT_NUMERICAL, reason, strain=strain), extra
        return PASSED._replace(strain=strain), extra


def ks_uniform(values: torch.Tensor) -> float:
    """p-value of the two-sided Kolmogorov-Smirnov test against U(0, 1), by Stephens' finite-sample correction."""
    ordered, _ = torch.sort(values.clamp(0.0, 1.0))
    count = len(ordered)
    steps = torch.arange(1, count + 1, dtype=torch.float64, device=ordered.device) / count
    distance = float(torch.maximum((steps - ordered).max(), (ordered - steps + 1 / count).max()))
    root = math.sqrt(count)
    scaled = (root + 0.12 + 0.11 / root) * distance
    if scaled < 0.2:
        return 1.0
    terms = (2 * (-1) ** (k - 1) * math.exp(-2 * k * k * scaled * scaled) for k in range(1, 101))
    return float(max(0.0, min(1.0, sum(terms))))
