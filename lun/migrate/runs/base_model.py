"""Which shipped model weights belong to, by what they are called."""

import re
from collections.abc import Sequence

_BY_NAME = (
    (r"3[._-]?5[._-]?large", "sd35-large"),
    (r"3[._-]?5[._-]?medium", "sd35-medium"),
    (r"stable-diffusion-3|sd[_-]?3(?!\d)", "sd3-medium"),
    (r"xl(?![a-z])|sdxl|pony|illustrious|noob", "sdxl"),
    (r"stable-diffusion-2(-1)?-base|2[._-]?[01][._-]base", "sd21-base"),
    (r"stable-diffusion-2|sd[_-]?v?2[._-]?[01]?(?!\d)|v2-[01]", "sd21-v"),
)


def model_of(weights: str, among: Sequence[str] = ()) -> str:
    """The shipped model, of those in question or of all; the first, or sd15, where the name says nothing."""
    name = weights.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    known = (model for pattern, model in _BY_NAME if re.search(pattern, name))
    return next((model for model in known if not among or model in among), among[0] if among else "sd15")
