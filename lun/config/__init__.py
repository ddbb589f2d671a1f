"""From YAML files and a command line to one checked tree: layers, positions, checks and old spellings."""
