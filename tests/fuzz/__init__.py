"""Random models against the real runtime: ``python -m tests.fuzz --help``."""
