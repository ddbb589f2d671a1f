"""`python -m lun.posthoc_ema`: averages of any width from the snapshots of a run, after training."""
