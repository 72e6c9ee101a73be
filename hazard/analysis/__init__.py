"""The analysis: control flow, byte-level reaching definitions, value numbers, witnesses and proofs.

Entry point: `hazard.analysis.check.analyse`. Only `hazard.analysis.solver` knows z3.
"""
