"""When the next step of a termination is due."""
