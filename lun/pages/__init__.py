"""Pages for people: one file that needs no other, light and dark, with what people wrote escaped."""
