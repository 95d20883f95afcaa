"""Notices: what one is, how urgent it is, and how each source's text becomes one. Pure, but for the backlog's queue."""
