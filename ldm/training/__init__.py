"""What trains and how a step is taken: rules, groups, adapters, rates, clipping, accumulation windows."""
