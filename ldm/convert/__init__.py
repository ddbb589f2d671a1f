"""A model from one layout of files to another: single files, pipelines' folders, and what they say of themselves."""
