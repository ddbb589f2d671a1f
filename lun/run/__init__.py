"""One start of a run: settings, plan, session, and how it ends."""
