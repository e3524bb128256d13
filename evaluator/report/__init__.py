"""The leaderboard from stored traces: as data, on the terminal, as JSON lines and as one page that opens offline."""

from kernelmill.evaluator.report.boards import Board as Board
from kernelmill.evaluator.report.boards import Report as Report
from kernelmill.evaluator.report.boards import build_report as build_report
