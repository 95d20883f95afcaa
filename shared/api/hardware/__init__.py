"""Instance types, and the devices that nodes have and pods claim."""
