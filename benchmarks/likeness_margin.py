"""How alike honest solutions of one definition are, and how alike a disguised copy stays to what it was made from.

`python -m benchmarks.likeness_margin [--pairs 12]`: over the shipped solutions, the most alike pairs of one definition
and, for each disguise of tests/leaderboard/disguises.py, the copy that is least like its original. Solutions that are
too short to be told apart are left out.
"""

from __future__ import annotations

import argparse
from itertools import combinations

from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path
from kernelmill.leaderboard.likeness import LEAST, NEAR, fingerprint, likeness
from tests.leaderboard.disguises import DISGUISES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=12)
    shown = parser.parse_args().pairs
    solutions = list(Dataset.open(default_path()).solutions())
    prints = {solution.name: fingerprint(solution) for solution in solutions}
    long = [solution for solution in solutions if len(prints[solution.name]) >= LEAST]
    pairs = sorted(
        (likeness(prints[one.name], prints[other.name]), one.name, other.name)
        for one, other in combinations(long, 2)
        if one.definition == other.definition
    )
    print(f"{len(long)} of {len(solutions)} solutions are long enough, {len(pairs)} pairs; near-clones from {NEAR}")
    for share, one, other in reversed(pairs[-shown:]):
        print(f"{share:>6.2f}  {one}  {other}")
    print("a disguised copy and its original, at the least:")
    for name, disguise in DISGUISES.items():
        least = min((likeness(prints[one.name], fingerprint(disguise(one))), one.name) for one in long)
        print(f"{least[0]:>6.2f}  {name:<15} {least[1]}")


if __name__ == "__main__":
    main()
