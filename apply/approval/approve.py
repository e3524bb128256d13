"""Approve: build a solution from its source in the sandbox, look at what came out, and sign for it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kernelmill.apply.approval.keys import PRIVATE, read_private
from kernelmill.apply.approval.manifest import Approval, digests, read_manifest, save_manifest
from kernelmill.apply.approval.symbols import check_symbols
from kernelmill.apply.errors import ApplyError
from kernelmill.trace_schema import Solution

if TYPE_CHECKING:
    from kernelmill.evaluator.builders import Artifact
    from kernelmill.evaluator.options import JudgeOptions

KERNELS = "kernels"
SOLUTIONS = "solutions"


def approve(
    home: Path, prefix: str, *, key: Path | None = None, reviewed: bool = False, options: JudgeOptions | None = None
) -> Approval:
    """`prefix` begins the hash of a solution of the table. Raises ApplyError, or a builder's error."""
    from kernelmill.evaluator.builders import Artifact
    from kernelmill.evaluator.options import JudgeOptions
    from kernelmill.evaluator.run import Forge

    private = read_private(key or home / PRIVATE)
    manifest = read_manifest(home, private.public_key())
    solution = find_solution(home, prefix)
    if not solution.spec.language.is_native and not reviewed:
        raise ApplyError(
            f"{solution.name} is {solution.spec.language.value}, which no list of symbols confines: read its source "
            f"({home / SOLUTIONS / solution.hash()}.json), then approve it with --reviewed"
        )
    built = Forge(options or JudgeOptions()).build(solution).result
    if not isinstance(built, Artifact):
        raise ApplyError(f"{solution.name} does not build here: {built}")
    if solution.spec.language.is_native:
        check_symbols(built.directory / built.entry)
    approval = _approval(solution, built, _install(home, solution, built), reviewed=reviewed)
    others = tuple(one for one in manifest.approvals if one.solution_hash != approval.solution_hash)
    save_manifest(home, manifest.model_copy(update={"approvals": (*others, approval)}), private)
    return approval


def revoke(home: Path, prefix: str, *, key: Path | None = None) -> list[str]:
    """Takes approvals back, by the beginning of a solution's hash; the names of what was taken back."""
    private = read_private(key or home / PRIVATE)
    manifest = read_manifest(home, private.public_key())
    gone = [one for one in manifest.approvals if one.solution_hash.startswith(prefix)]
    kept = tuple(one for one in manifest.approvals if one not in gone)
    save_manifest(home, manifest.model_copy(update={"approvals": kept}), private)
    return [one.solution for one in gone]


def find_solution(home: Path, prefix: str) -> Solution:
    """The one solution beside the table whose hash begins so."""
    found = sorted((home / SOLUTIONS).glob(f"{prefix}*.json")) if len(prefix) >= 6 and prefix.isalnum() else []
    if len(found) != 1:
        raise ApplyError(
            f"{len(found)} solutions of the table have a hash that begins with {prefix!r}; "
            "give at least six digits of one that `kernelmill apply explain` lists"
        )
    solution = Solution.model_validate_json(found[0].read_bytes())
    if solution.hash() != found[0].stem:
        raise ApplyError(
            f"{found[0]} is not the source that its name says; make the table anew: kernelmill apply build"
        )
    return solution


def _install(home: Path, solution: Solution, built: Artifact) -> dict[str, str]:
    """Copies the artifact, so that the build cache may be emptied."""
    place = home / KERNELS / solution.hash()
    new = place.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(built.directory, new, symlinks=True)
    shutil.rmtree(place, ignore_errors=True)
    new.rename(place)
    return digests(place)


def _approval(solution: Solution, built: Artifact, files: dict[str, str], *, reviewed: bool) -> Approval:
    return Approval(
        solution_hash=solution.hash(),
        solution=solution.name,
        definition=solution.definition,
        language=solution.spec.language.value,
        kind=built.kind,
        entry=built.entry,
        symbol=built.symbol,
        destination_passing=built.destination_passing,
        files=files,
        approved_at=datetime.now(UTC).isoformat(timespec="seconds"),
        reviewed=reviewed,
    )
