"""From files to one tree of settings that knows where each came from."""
