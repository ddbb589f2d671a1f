"""Words of commands that are printed to be pasted."""

import shlex


def quoted(*words: object) -> str:
    """The words as a shell takes them in: those with spaces, brackets, braces or quotes in quotes."""
    return shlex.join(str(word) for word in words)
