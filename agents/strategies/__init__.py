"""How a run searches."""
