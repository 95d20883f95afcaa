"""Faults put into copies of the real code, one line each: proof that the simulation can fail.

A mutant that no seed finds is a missing invariant or a missing fault. Published in docs/development/mutants.md.
"""
