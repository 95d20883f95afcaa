"""How loops and calls wait: delays between tries, pauses that a stop ends, a bounded number of works at once."""
