"""`python -m lun.convert IN OUT --to {ldm,diffusers}`: any weights into files that other programs open."""
