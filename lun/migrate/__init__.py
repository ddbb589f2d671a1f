"""`python -m lun.migrate FILE`: the data sets of another trainer's file as `data.params.train.sets`."""
