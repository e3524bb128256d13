"""Judging by bursts: many calls at one go, each on a slot of its own, timed by the slope between two lengths.

This is how kernels of microseconds are timed on a GPU, where starting and waiting cost a hundred times as much as they.
"""
