"""Decision records and the log beside them: their types, and how a snapshot is restored from it. Pure."""
