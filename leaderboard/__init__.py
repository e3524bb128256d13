"""The service: not part of this version."""
