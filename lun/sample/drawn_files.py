"""Pictures drawn into files, batch by batch."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image

from lun.sample.drawing import draw, is_broken
from lun.sample.metadata import write_picture
from lun.sample.opened_model import SampledModel
from lun.sample.pictures import Picture, batches

log = logging.getLogger(__name__)


def drawn_files(
    source: SampledModel, wanted: Sequence[tuple[Picture, Path]], most: int, dtype: str
) -> Iterator[list[Image.Image]]:
    """Draw each picture into its file, up to `most` at once, and yield those of each batch as they are written."""
    paths = iter([path for _, path in wanted])
    for batch in batches([picture for picture, _ in wanted], most):
        images = []
        for picture, values in zip(batch, draw(source.model, batch, dtype), strict=True):
            path = next(paths)
            if is_broken(values):
                log.warning("%s holds values that are no numbers; try --dtype fp32", path)
            images.append(write_picture(picture, values, source, dtype, path))
        yield images
