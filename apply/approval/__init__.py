"""What may run in a serving process: the operator's signed list, and what stands behind each of its lines."""
