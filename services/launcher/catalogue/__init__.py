"""Instance types, prices and zones that may be bought: read from AWS, corrected, and published in Redis."""
