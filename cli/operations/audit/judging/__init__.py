"""What a promise says of one reading. Pure: no function here reads anything."""
