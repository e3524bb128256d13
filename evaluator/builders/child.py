"""Inside the build sandbox: carry out one plan, leave the library in the output directory, say how it went.

stdin: {"source": directory, "output": directory, "syntax" | "library": plan}. stdout: one JSON line {"status", "log"}.
Statuses: ok; compile (the author's fault); resource (the compiler ran out of memory or disk); toolchain (the host's).
Standard library only. No foreign code runs here, except what a compiler could be tricked into.
"""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from kernelmill.evaluator.builders.plan import LibraryPlan, SyntaxPlan

LOG_BYTES = 64 << 10
TOOL_LOG_BYTES = 16 << 20
"""For what is read before it is shown: hundreds of remarks about Python's symbols must not hide one about another."""
PARALLEL = 4
PROBE = "int kernelmill_probe() { return 0; }\n"
EXHAUSTED = re.compile(
    r"(Killed|File size limit exceeded|CPU time limit exceeded) signal terminated program|out of memory allocating"
    r"|virtual memory exhausted|Cannot allocate memory|No space left on device|[Ff]ile too (large|big)"
)
USED_UP = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EAGAIN)
"""Of the sandbox's own bounds; any other failure to start a tool or write a file is the host's."""
UNRESOLVED = re.compile("undefined reference to ")
PYTHON_REMARK = re.compile(r": in function |undefined reference to [`']_?Py[A-Za-z_]\w*'$")


class Outcome(NamedTuple):
    """What the trusted side is told."""

    status: str
    log: str = ""


class Ran(NamedTuple):
    """One finished tool."""

    returncode: int
    log: str


def check_syntax(source: Path, plan: SyntaxPlan) -> Outcome:
    for file in plan.files:
        try:
            compile((source / file).read_bytes(), file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            place = f"{file}:{getattr(error, 'lineno', None) or 1}"
            shown = "".join(traceback.format_exception_only(error))
            return Outcome("compile", f"{place}: {type(error).__name__}: {getattr(error, 'msg', error)}\n{shown}")
    return Outcome("ok")


def build_library(source: Path, output: Path, plan: LibraryPlan) -> Outcome:
    limit = 8 * plan.max_bytes  # objects and temporary files are larger than the library
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            return _build(source, output, plan, Path(scratch))
        except OSError as error:
            return Outcome("resource" if error.errno in USED_UP else "toolchain", f"error: {error}")


def _build(source: Path, output: Path, plan: LibraryPlan, scratch: Path) -> Outcome:
    objects = [scratch / f"{number}.o" for number in range(len(plan.sources))]  # a source's name may be as long as any
    with ThreadPoolExecutor(PARALLEL) as pool:
        compiled = list(pool.map(lambda name, target: _compile(plan, name, target, source), plan.sources, objects))
    log = "".join(ran.log for ran in compiled)
    if any(ran.returncode for ran in compiled):
        return _blame(plan, log, objects, scratch)
    library = scratch / plan.library
    link = [plan.compiler, *plan.flags, "-shared", *map(str, objects), "-o", str(library), *plan.link_flags]
    ran = _run(link, source, TOOL_LOG_BYTES)
    linking = _without_python(ran.log) if plan.python_symbols else ran.log
    if ran.returncode:
        return _blame(plan, log + linking, [*objects, library], scratch)
    if UNRESOLVED.search(linking):  # only a warning where Python's own symbols must be let through
        return Outcome("compile", log + linking)
    return _deliver(plan, library, output, log + linking)


def _compile(plan: LibraryPlan, name: str, target: Path, source: Path) -> Ran:
    """`./` keeps a file name from being read as an option."""
    if name.endswith(".cu"):
        return _run([plan.cuda_compiler, *plan.cuda_flags, "-c", f"./{name}", "-o", str(target)], source)
    language = ["-x", "c"] if name.endswith(".c") else list(plan.cxx_flags)
    return _run([plan.compiler, *plan.flags, *language, "-c", f"./{name}", "-o", str(target)], source)


def _blame(plan: LibraryPlan, log: str, leftovers: Sequence[Path], scratch: Path) -> Outcome:
    """The author's fault, unless resources ran out, or a file that is known to be good does not compile either."""
    if EXHAUSTED.search(log):
        return Outcome("resource", log)
    for leftover in leftovers:
        leftover.unlink(missing_ok=True)
    (scratch / "probe.cpp").write_text(PROBE)
    probe = _run([plan.compiler, "-shared", "-fPIC", "probe.cpp", "-o", "probe.so"], scratch)
    return Outcome("toolchain", probe.log) if probe.returncode else Outcome("compile", log)


def _deliver(plan: LibraryPlan, library: Path, output: Path, log: str) -> Outcome:
    if library.stat().st_size > plan.max_bytes:
        return Outcome("resource", f"error: the library is larger than {plan.max_bytes} bytes\n{log}")
    listed = _run(["nm", "-D", "--defined-only", "--format=posix", str(library)], output, TOOL_LOG_BYTES)
    if listed.returncode:
        return Outcome("toolchain", listed.log)
    exported = [line.split(" ", 1)[0] for line in listed.log.splitlines()]
    if plan.export not in exported:
        return Outcome("compile", f"error: the library does not export {plan.export}; {plan.hint}\n{log}")
    shutil.copyfile(library, output / plan.library)
    return Outcome("ok", log)


def _without_python(log: str) -> str:
    """The linker's log without its remarks about Python's symbols, hundreds of which are as they should be."""
    return "".join(line for line in log.splitlines(keepends=True) if not PYTHON_REMARK.search(line))


def _run(argv: Sequence[str], cwd: Path, log_bytes: int = LOG_BYTES) -> Ran:
    """Run one tool. Its output is kept up to a cap and read to the end, so that a flood costs time only."""
    with subprocess.Popen(
        argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        log = process.stdout.read(log_bytes)
        while process.stdout.read(1 << 16):
            continue
    return Ran(process.returncode, log.decode("utf-8", "replace"))


def main() -> None:
    order = json.load(sys.stdin)
    source, output = Path(order["source"]), Path(order["output"])
    os.environ["LC_ALL"] = "C"
    if "syntax" in order:
        outcome = check_syntax(source, SyntaxPlan(**order["syntax"]))
    else:
        outcome = build_library(source, output, LibraryPlan(**order["library"]))
    print(json.dumps({"status": outcome.status, "log": outcome.log[:LOG_BYTES]}), flush=True)


if __name__ == "__main__":
    main()
