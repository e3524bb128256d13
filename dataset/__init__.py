"""The store: a folder of definitions, workloads, solutions and traces, with an index beside it."""

from kernelmill.dataset.paths import default_path as default_path
from kernelmill.dataset.problems import Problem as Problem
from kernelmill.dataset.store import Dataset as Dataset
from kernelmill.trace_schema.errors import DatasetError as DatasetError
