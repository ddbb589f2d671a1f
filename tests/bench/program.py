"""Where the program lies that is measured, and puts it first on the path: import this before `ldm` and `lun`.

It is the one beside these scripts, or the checkout that the variable LUN_MEASURED names: `bench.sh --against` measures
another commit with the same scripts.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("LUN_MEASURED") or HERE.parents[1]).resolve()
for folder in (HERE, HERE.parent, ROOT):  # the last comes first
    sys.path[:] = [str(folder), *(place for place in sys.path if place != str(folder))]
