"""Pods as metrics: what each is in, and how long it took to be bound and to run."""
