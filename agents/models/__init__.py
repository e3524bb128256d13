"""Clients of language models, and stand-ins for them."""
