"""One module a resource; each has a `router`."""
