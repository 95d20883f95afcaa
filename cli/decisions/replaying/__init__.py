"""Makes recorded decisions again."""
