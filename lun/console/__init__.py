"""What a person reads: the log, faults, how a program ends."""
