"""What the watcher writes on objects: status, conditions and hashes of pools and classes, and notes on machines."""
