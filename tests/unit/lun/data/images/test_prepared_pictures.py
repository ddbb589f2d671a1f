"""Folders and packed sets take the settings of pictures alike, and refuse the same ones."""

from dataclasses import fields

import pytest

from ldm.errors import Fault
from lun.config.signature import accepted_by, target_at
from lun.data.images.preparation import Preparation
from lun.data.local import Local
from lun.data.packed import PackedSet


@pytest.mark.parametrize("kind", [Local, PackedSet])
def test_sets_of_pictures_take_the_settings_of_their_preparation(kind: type) -> None:
    settings = accepted_by(target_at("lun.data.images.preparation.Preparation")).parameters
    assert settings.keys() == {one.name for one in fields(Preparation)}
    assert settings.items() <= accepted_by(kind).parameters.items()


@pytest.mark.parametrize("kind", [Local, PackedSet])
def test_a_setting_that_makes_no_sense_is_refused_before_any_folder_is_read(kind: type[Local | PackedSet]) -> None:
    with pytest.raises(Fault, match="flip_p"):
        kind.require_settings({"data_root": "nowhere", "flip_p": 2.0})
    kind.require_settings({"data_root": "nowhere", "flip_p": 1.0})
