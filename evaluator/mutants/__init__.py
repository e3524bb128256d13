"""Mutants: answers that are wrong in a known way. A definition whose comparator lets one pass judges nobody.

`kernelmill validate --mutants` runs `check`; `hunt` finds the survivors of one definition; `outputs`, `inputs` and
`sampling` make the mutants. No kernel is written for one: an answer is the reference's own, changed, or the reference's
to changed inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelmill.dataset.checks.context import Context
    from kernelmill.dataset.checks.finding import Finding


def check(context: Context) -> Iterator[Finding]:
    """The check of that name in a validation: an error for every mutant that passes."""
    from kernelmill.evaluator.mutants.validation import findings

    return findings(context)
