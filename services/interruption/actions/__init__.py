"""What is done about a notice: which action, what the pool's policy makes of it, the writes, and who is informed."""
