"""`python -m lun.convert IN OUT --to {ldm,diffusers,kohya}`: any weights into files that other programs open."""
