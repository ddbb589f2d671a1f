"""A process that fetches files of a packed set: what and from where is read as JSON on its standard input."""

import json
import sys

from ldm.errors import Fault
from ldm.plain import parse_json
from lun.data.packs.remote import Remote


def main() -> None:
    """Print one line of JSON (the lengths of the files, or a fault), then the files themselves."""
    asked = parse_json(sys.stdin.read())
    head: dict[str, object]
    found: list[bytes] = []
    try:
        found = Remote(asked["url"]).fetch(asked["names"])
        head = {"lengths": [len(one) for one in found]}
    except Fault as fault:
        head = {"fault": [fault.id, fault.what, fault.where, fault.why, fault.fix]}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + b"".join(found))


if __name__ == "__main__":
    main()
