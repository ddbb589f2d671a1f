"""`python -m lun.data.cache --base YAML ... --data_root DIR`: fill the caches without training."""
