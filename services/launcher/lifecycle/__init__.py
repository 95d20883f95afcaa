"""From an instance to a registered, initialised node; and what is kept true about it afterwards."""
