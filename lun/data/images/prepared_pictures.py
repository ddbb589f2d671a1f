"""What folders and packed sets do alike with pixels: a setting of `Preparation` is one of every set."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ldm.diffusion.draws import Draws
from lun.data.images.colours import ColourManagement
from lun.data.images.cuts import CropSetting
from lun.data.images.preparation import Preparation


class PreparedPictures:
    """A set whose pictures are prepared as its recipe says.

    pictures  settings of `Preparation`, by name
    """

    accepts = "lun.data.images.preparation.Preparation"

    def __init__(self, **pictures: Any) -> None:
        self.prepared = Preparation(**pictures)

    @classmethod
    def require_preparation(cls, params: Mapping[str, Any]) -> None:
        """Raise `Fault` CFG08 for settings of pictures, among all `params` of a set, that make no sense."""
        _preparation_of(params)

    @classmethod
    def varies(cls, params: Mapping[str, Any]) -> bool:
        """Whether a set with these params is `varied`."""
        return _preparation_of(params).varied

    @property
    def size(self) -> int | None:
        """Pixels of the square that is cut out where no bucket asks for another size."""
        return self.prepared.size

    @property
    def crop(self) -> CropSetting:
        return self.prepared.crop

    @property
    def varied(self) -> bool:
        """Whether more than the mirroring of a picture is left to chance, which then needs an example's draws."""
        return self.prepared.varied

    @property
    def flip_p(self) -> float:
        return self.prepared.flip_p

    @property
    def icc(self) -> ColourManagement:
        return self.prepared.icc

    def flipped(self, draws: Draws) -> bool:
        """Whether the example with these draws is mirrored."""
        return self.prepared.flipped(draws)

    def preparation(self) -> str:
        """What the pixels depend on besides the picture's file, the mirroring and an asked size."""
        return self.prepared.identity()


def _preparation_of(params: Mapping[str, Any]) -> Preparation:
    known = {setting.name for setting in fields(Preparation)}
    return Preparation(**{name: value for name, value in params.items() if name in known})
