"""The options of a command that measures samples: encoders, and how much of the data."""

from typing import Any

from ldm.errors import Fault

MOST = 10_000


def add_measures(parser: Any) -> None:
    """--clip, --dino, --features and --most."""
    parser.add_argument("--clip", metavar="FOLDER", help="a CLIP model")
    parser.add_argument("--dino", metavar="FOLDER", help="a DINOv2 or DINOv3 model")
    parser.add_argument("--features", metavar="FOLDER", help="any other image encoder")
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=f"so many pictures of the data ({MOST:,})")


def require_most(most: int) -> None:
    """Raise `Fault` CLI03 for fewer pictures than a distance takes."""
    if most < 2:
        raise Fault("CLI03", f"--most cannot be {most}", where="--most", why="a distance takes two pictures")
