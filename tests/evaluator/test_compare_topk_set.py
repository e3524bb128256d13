"""Chosen indices: a set without duplicates, with ties decided either way and nothing else left to taste."""

from __future__ import annotations

import pytest
import torch

from kernelmill.trace_schema import Verdict
from kernelmill.trace_schema.errors import DatasetError
from tests.evaluator.compared import Compared, definition_of

WRONG = Verdict.INCORRECT_NUMERICAL


class Routing:
    """The four best of 32 experts for 16 tokens, with their weights. Logits are coarse, so that there are ties."""

    def __init__(self, scores: bool = True) -> None:
        torch.manual_seed(0)
        self.logits = (torch.randn(16, 32) * 2).round() / 2
        self.logits[0, :8] = 9.0  # eight experts tie for the four places
        best, self.ids = self.logits.sort(dim=-1, descending=True, stable=True)
        self.exact = best[:, :4].double().softmax(-1)
        self.ids = self.ids[:, :4].int()
        params = {"indices": "ids", "values": "weights", **({"scores": "logits"} if scores else {})}
        definition = definition_of(
            {"logits": self.logits},
            {"weights": self.exact.float(), "ids": self.ids},
            comparator={"kind": "topk_set", "params": params},
        )
        self.compared = Compared(definition)
        declared = {"weights": self.exact.float(), "ids": self.ids}
        self.judge = self.compared.expect(
            {"logits": self.logits}, declared, {"weights": self.exact, "ids": self.ids}
        ).judge

    def verdict(self, ids: torch.Tensor, weights: torch.Tensor | None = None) -> Verdict | None:
        return self.judge({"ids": ids, "weights": self.exact.float() if weights is None else weights}).verdict


def test_any_order_passes_if_the_weights_come_along() -> None:
    routing = Routing()
    order = torch.rand(16, 4).argsort(-1)
    ids, weights = routing.ids.gather(-1, order), routing.exact.float().gather(-1, order)
    assert routing.verdict(ids, weights) is None
    assert routing.verdict(ids) is WRONG


def test_a_tie_may_be_decided_otherwise_only_where_the_scores_are_known() -> None:
    routing = Routing()
    other = routing.ids.clone()
    other[0] = torch.tensor([7, 6, 5, 4])
    assert routing.verdict(other) is None
    assert Routing(scores=False).verdict(other) is WRONG


def test_an_expert_that_scores_less_fails() -> None:
    routing = Routing()
    worse = routing.ids.clone()
    worse[3, 3] = routing.logits[3].argmin()
    finding = routing.judge({"ids": worse, "weights": routing.exact.float()})
    assert finding.verdict is WRONG
    assert "row 3" in finding.reason and "not as good" in finding.reason


@pytest.mark.parametrize(
    ("index", "said"), [(32, "out-of-range"), (-2, "out-of-range"), (1 << 30, "out-of-range"), (-1, "padding")]
)
def test_an_index_that_means_nothing_fails(index: int, said: str) -> None:
    routing = Routing()
    broken = routing.ids.clone()
    broken[5, 2] = index
    finding = routing.judge({"ids": broken, "weights": routing.exact.float()})
    assert finding.verdict is WRONG
    assert said in finding.reason


def test_a_duplicate_fails_even_of_a_tie() -> None:
    routing = Routing()
    twice = routing.ids.clone()
    twice[0] = torch.tensor([7, 7, 5, 4])
    finding = routing.judge({"ids": twice, "weights": routing.exact.float()})
    assert finding.verdict is WRONG
    assert "duplicates" in finding.reason


def test_wrong_weights_fail() -> None:
    routing = Routing()
    for weights in (routing.exact * 1.01, routing.exact * 0, routing.exact.roll(1, 0), routing.exact.bfloat16()):
        assert routing.verdict(routing.ids, weights.float()) is WRONG


class Indexer:
    """The 512 best of up to 2000 tokens in pages of 64; the last row has 100 tokens only."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.lens = torch.tensor([2000, 1500, 100], dtype=torch.int32)
        self.table = torch.randperm(96, dtype=torch.int32).reshape(3, 32)
        self.chosen = torch.full((3, 512), -1, dtype=torch.int32)
        for row in range(3):
            best = torch.randperm(int(self.lens[row]))[:512]
            self.chosen[row, : len(best)] = self.place(row, best)
        definition = definition_of(
            {"block_table": self.table, "seq_lens": self.lens, "scores": torch.zeros(3, 64)},
            {"chosen": self.chosen},
        )
        self.compared = Compared(definition, {"page_size": 64})
        inputs = {"block_table": self.table, "seq_lens": self.lens}
        self.judge = self.compared.expect(inputs, {"chosen": self.chosen}).judge

    def place(self, row: int, tokens: torch.Tensor) -> torch.Tensor:
        return (self.table[row, tokens // 64] * 64 + tokens % 64).int()

    def replaced(self, row: int, count: int, tokens: torch.Tensor) -> str:
        other = self.chosen.clone()
        other[row, :count] = tokens[:count]
        return self.judge({"chosen": other[:, torch.randperm(512)]}).reason

    def unchosen(self, row: int) -> torch.Tensor:
        places = self.place(row, torch.arange(int(self.lens[row])))
        return places[~torch.isin(places, self.chosen[row])]


def test_the_default_for_a_paged_indexer_takes_any_order_and_a_few_others_near_the_cut() -> None:
    indexer = Indexer()
    assert indexer.replaced(0, 0, indexer.unchosen(0)) == ""
    assert indexer.replaced(0, 2, indexer.unchosen(0)) == ""
    assert "not among the best" in indexer.replaced(0, 3, indexer.unchosen(0))


def test_a_token_of_another_sequence_or_of_none_is_out_of_range() -> None:
    indexer = Indexer()
    assert "out-of-range" in indexer.replaced(0, 1, indexer.unchosen(1))
    assert "out-of-range" in indexer.replaced(1, 1, indexer.place(1, torch.tensor([1501])))
    assert "out-of-range" in indexer.replaced(1, 1, torch.tensor([1 << 30], dtype=torch.int32))


def test_a_row_that_holds_every_candidate_has_no_slack() -> None:
    indexer = Indexer()
    assert "padding" in indexer.replaced(2, 1, torch.tensor([-1]))
    dropped = indexer.chosen.clone()
    dropped[2, 95:100] = -1
    assert indexer.judge({"chosen": dropped}).verdict is WRONG


def test_agreement_is_that_of_the_sets() -> None:
    routing = Routing()
    order = torch.rand(16, 4).argsort(-1)
    mine = {"ids": routing.ids.gather(-1, order), "weights": routing.exact.float().gather(-1, order)}
    theirs = {"ids": routing.ids, "weights": routing.exact.float()}
    agree = routing.compared.comparator.agree
    assert agree(mine, theirs) is True
    assert agree({**mine, "weights": theirs["weights"]}, theirs) is False
    assert agree({**mine, "ids": mine["ids"] + 1}, theirs) is False


def test_a_param_that_names_nothing_is_the_datasets_fault() -> None:
    comparator = {"kind": "topk_set", "params": {"indices": "ids", "scores": "logit"}}
    with pytest.raises(DatasetError, match="scores='logit' names no input or output"):
        Compared(definition_of({}, {"ids": torch.zeros(1, 1).int()}, comparator=comparator))
