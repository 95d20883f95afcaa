"""The changes of the picture: those that pages still need to catch up, and those of the last hour."""
