"""Pictures from a run, a checkpoint or a published model."""
