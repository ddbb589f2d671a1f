"""What a person is told: the log, faults, how a program ends."""
