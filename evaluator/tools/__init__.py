"""Tools for authors: a solution played under a profiler or a checker, in the judge's sandbox. Nothing scores here.

`profile` and `sanitize` share a `Stage`: the built solution, one workload's inputs in a file, and the child `play` that
calls the one on the other. No trace is ever written.
"""

from __future__ import annotations
