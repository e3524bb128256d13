"""What the reference of a norm says and its tensors do not."""

from __future__ import annotations

import ast

from kernelmill.trace_schema import Definition

EPSILONS = frozenset({"eps", "epsilon"})


def epsilon_of(definition: Definition) -> float | None:
    """The number that a norm's reference adds before the root: the one constant called eps or epsilon, in any case."""
    found = set()
    for node in ast.walk(ast.parse(definition.reference)):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        named = any(isinstance(target, ast.Name) and target.id.lower() in EPSILONS for target in targets)
        value = getattr(node, "value", None)
        if named and isinstance(value, ast.Constant) and isinstance(value.value, int | float):
            found.add(float(value.value))
    return found.pop() if len(found) == 1 else None
