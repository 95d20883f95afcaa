"""What no living object accounts for is found by lists and ended after confirmation."""
