"""The real runtime as judge: a program beside a twin of itself that never reuses memory."""
