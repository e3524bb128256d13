"""`python -m kernelmill` is the `kernelmill` command."""

from kernelmill.cli import main

if __name__ == "__main__":
    main()
