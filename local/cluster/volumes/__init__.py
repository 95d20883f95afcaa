"""Persistent volumes: which nodes reach them, and who makes and binds them."""
