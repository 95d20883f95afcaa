"""What the scheduler makes sure of before it spends: a true picture, its own writes, pods in need."""
