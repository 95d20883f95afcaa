"""The archive: where decision records and the log are kept, written by the scheduler and read by commands."""
