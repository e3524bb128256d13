"""Turning apply on in a program that does not know of it."""
