"""The site: not part of this version."""
