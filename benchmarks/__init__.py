"""Measurements; see the docstring of each module for its command."""
