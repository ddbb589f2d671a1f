"""One start of a run: settings, session, and how it ends."""
