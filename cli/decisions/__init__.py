"""Commands that ask about decisions: why something was bought or kept, and what else would have been decided."""
