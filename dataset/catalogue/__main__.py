"""`python -m kernelmill.dataset.catalogue --out DIR`: definitions and solutions, packed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelmill.dataset.catalogue.pack import write


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kernelmill.dataset.catalogue", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="a dataset's root")
    print(f"{len(write(parser.parse_args().out))} files written", file=sys.stderr)


if __name__ == "__main__":
    main()
