"""Which sizes there are, which picture goes where, and what it costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.errors import Fault
from lun.data.order.bucket_table import assign
from lun.data.order.buckets import Buckets, fit_sizes

law = settings(deadline=None, max_examples=60)


def pictures(*sizes: tuple[int, int]) -> np.ndarray:
    return np.array(sizes)


@law
@given(resolution=st.integers(128, 2048), step=st.sampled_from([8, 32, 64]), low=st.sampled_from([0.25, 0.5, 1.0]))
def test_sizes_keep_the_area_the_step_and_the_aspects(resolution, step, low):
    buckets = Buckets((resolution,), step, min_aspect=low, max_aspect=1 / low)
    for width, height in buckets.sizes(resolution):
        assert width % step == height % step == 0
        assert width * height <= resolution**2
        assert low <= width / height <= 1 / low


def test_the_sizes_of_512_in_steps_of_64():
    assert Buckets((512,)).sizes(512) == [
        *[(320, 768), (320, 704), (384, 640), (448, 576)],
        (512, 512),
        *[(576, 448), (640, 384), (704, 320), (768, 320)],
    ]


@law
@given(width=st.integers(1, 5000), height=st.integers(1, 5000))
def test_a_picture_goes_where_least_of_it_is_cut_away(width, height):
    sizes = Buckets((512,), min_aspect=0.25, max_aspect=4.0).sizes(512)
    fit = fit_sizes(pictures((width, height)), sizes)

    def lost(size: tuple[int, int]) -> float:
        ratio = (width / height) / (size[0] / size[1])
        return 1 - min(ratio, 1 / ratio)

    assert lost(sizes[fit.chosen[0]]) == pytest.approx(min(map(lost, sizes)))
    assert fit.cropped[0] == pytest.approx(lost(sizes[fit.chosen[0]]))


def test_every_picture_is_read_at_every_resolution_that_it_is_large_enough_for():
    table = assign(pictures((2000, 2000), (600, 600), (100, 100)), None, Buckets((512, 1024)))
    read = {bucket.size: bucket.examples.tolist() for bucket in table.buckets}
    assert read == {(512, 512): [0, 1, 2], (1024, 1024): [0]}
    assert (table.n, table.spared, table.left_out) == (4, 2, [])


def test_upscale_reads_small_pictures_everywhere():
    assert assign(pictures((100, 100)), None, Buckets((512, 1024), upscale=True)).n == 2


def test_repeats_count_as_examples():
    table = assign(pictures((512, 512), (512, 512)), np.array([3, 1]), Buckets((512,)))
    assert table.buckets[0].examples.tolist() == [0, 0, 0, 1]


def test_max_crop_leaves_out_and_tells():
    table = assign(pictures((512, 512), (4096, 512)), None, Buckets((512,), max_crop=0.3))
    assert (table.n, table.left_out) == (1, [1])
    assert "1 left out, since they would lose more than data.params.buckets.max_crop: 1.png" in "\n".join(
        table.lines(4, lambda index: f"{index}.png")
    )


def test_max_crop_that_leaves_nothing_is_an_error():
    with pytest.raises(Fault, match="DAT02"):
        assign(pictures((4096, 512)), None, Buckets((512,), max_crop=0.1))


def test_the_table_tells_counts_crop_and_small_buckets():
    table = assign(pictures((512, 512), (1024, 1024), (768, 320), (1536, 320)), None, Buckets((512,)))
    assert table.lines(3, lambda index: f"{index}.png") == [
        "2 buckets, 4 examples an epoch; 12.5% of the pixels cropped away, at most 50% (3.png)",
        "    512 x 512           2 examples   0.0% cropped   one batch of 3 in 1.5 epochs",
        "    768 x 320           2 examples  25.0% cropped   one batch of 3 in 1.5 epochs",
    ]


def test_another_assignment_has_another_fingerprint():
    one, two = (assign(pictures((512, 512), (side, 512)), None, Buckets((512,))) for side in (512, 1024))
    assert one.fingerprint() == assign(pictures((512, 512), (512, 512)), None, Buckets((512,))).fingerprint()
    assert one.fingerprint() != two.fingerprint()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"resolution": [512]}, "unknown setting data.params.buckets.resolution"),
        ({}, "data.params.buckets has no resolutions"),
        ({"resolutions": [512], "step": 0}, "data.params.buckets.step cannot be 0"),
        ({"resolutions": [512], "min_aspect": 1.5}, "data.params.buckets.min_aspect cannot be 1.5"),
        ({"resolutions": [512], "max_aspect": 0.5}, "data.params.buckets.max_aspect cannot be 0.5"),
        ({"resolutions": [512], "max_crop": 2}, "data.params.buckets.max_crop cannot be 2"),
        ({"resolutions": [32]}, "data.params.buckets.resolutions cannot be 32"),
        ({"resolutions": [20000]}, "data.params.buckets.resolutions cannot be 20000"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, told):
    with pytest.raises(Fault) as caught:
        Buckets.read(settings)
    assert caught.value.what == told
