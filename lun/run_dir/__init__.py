"""The run directory: made once for all ranks, locked by one writer, and read when a run goes on."""
