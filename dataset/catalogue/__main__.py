"""`python -m kernelmill.dataset.catalogue --out DIR [--inventory FILE]`: definitions, solutions, workloads."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelmill.dataset import Dataset
from kernelmill.dataset.catalogue.inventory import refresh
from kernelmill.dataset.catalogue.pack import write


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kernelmill.dataset.catalogue", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="a dataset's root")
    parser.add_argument("--inventory", type=Path, help="a document whose table of the dataset is made anew")
    arguments = parser.parse_args()
    print(f"{len(write(arguments.out))} files written", file=sys.stderr)
    if arguments.inventory:
        arguments.inventory.write_text(refresh(arguments.inventory, Dataset.open(arguments.out)))


if __name__ == "__main__":
    main()
