"""The plan in a few lines."""

from ldm.models.parts import PartSize
from lun.launch.plan import Plan

PLAN = Plan(
    configs=("a.yaml", "b.yaml"),
    overrides=2,
    data="pictures",
    n=168,
    n_validation=24,
    model="LatentDiffusion",
    parts=(PartSize("UNet", 2_491_172, True), PartSize("first stage", 954_567, False)),
    batch_size=16,
    accumulate=2,
    devices=1,
    max_steps=900,
    rate="4.00e-03, as written",
)


def test_the_plan_says_what_will_happen_in_numbers() -> None:
    assert PLAN.lines() == [
        "config   a.yaml < b.yaml < command line (2 settings)",
        "data     pictures: 168 images, 24 for validation",
        "model    LatentDiffusion: UNet 2.49 M trained · first stage 0.95 M frozen",
        "steps    900 steps = 171.4 epochs; batch 16 x accumulate 2 x devices 1 = 32 images a step, 5.2 steps an epoch",
        "rate     4.00e-03, as written",
    ]
