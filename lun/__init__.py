"""How a person runs it: see README.md beside this file."""

import os
import sys

HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
# While `python -m lun.X` is being located, Python has put the folder that it was started in before all others. A file
# that somebody shared there (`accelerate.py` beside pictures) would be imported in place of a package.
if sys.argv[:1] == ["-m"] and sys.path and not sys.flags.safe_path and os.path.realpath(sys.path[0]) != HOME:
    del sys.path[0]
