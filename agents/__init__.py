"""Agents: write kernels, have them judged, learn. They meet the same judge as everybody else.

`loop` runs a strategy (`strategies/`) against a judge (`judging`) within a budget (`budget`), and keeps all of it in a
run directory (`journal`). `templates/` are bounded spaces of kernels that need no model; `models/` are clients of
language models; `tools/` is what a model, or a program, may call.
"""
