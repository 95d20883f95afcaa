"""The types of values that are more than bytes. Each change notes how to take it back (``Keyspace.undo``)."""
