"""Static capacity: pools that keep a fixed number of machines (feature gate StaticCapacity)."""
