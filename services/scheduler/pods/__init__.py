"""What the scheduler tells of single pods."""
