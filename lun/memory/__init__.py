"""How much memory of an accelerator a run will need, before there is one."""
