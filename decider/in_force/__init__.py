"""What is in force: read and verified as a whole, changed by commands, told to all by the beacon."""
