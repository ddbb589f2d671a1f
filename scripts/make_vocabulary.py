"""Take CLIP's merges out of open_clip's wheel; the result is committed below ldm/modules/encoders/data.

pip download --no-deps --dest DIR open_clip_torch==3.3.0
python scripts/make_vocabulary.py DIR/open_clip_torch-3.3.0-py3-none-any.whl
"""

import argparse
import gzip
import hashlib
import zipfile
from pathlib import Path

MERGES = "open_clip/bpe_simple_vocab_16e6.txt.gz"
COUNT = 49408 - 2 * 256 - 2  # ids left after single bytes, those that end a word, and the marks of start and end
DATA = Path(__file__).resolve().parents[1] / "ldm/modules/encoders/data"
NOTICE = """clip-merges.txt.gz: the first {count:,} merges of CLIP's byte pair encoding, in order.

Origin   {wheel}, {member}, lines 2 to {last}
sha256   {wheel_hash}  {wheel}
         {data_hash}  clip-merges.txt.gz
Made by  scripts/make_vocabulary.py
Licence  that of open_clip, as follows

{licence}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    wheel: Path = parser.parse_args().wheel
    with zipfile.ZipFile(wheel) as archive:
        lines = gzip.decompress(archive.read(MERGES)).decode().split("\n")[1 : 1 + COUNT]
        licence = next(name for name in archive.namelist() if name.endswith("/LICENSE"))
        terms = archive.read(licence).decode()
    packed = gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)
    (DATA / "clip-merges.txt.gz").write_bytes(packed)
    notice = NOTICE.format(
        count=COUNT,
        last=COUNT + 1,
        wheel=wheel.name,
        member=MERGES,
        wheel_hash=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        data_hash=hashlib.sha256(packed).hexdigest(),
        licence=terms,
    )
    (DATA / "NOTICE").write_text(notice)


if __name__ == "__main__":
    main()
