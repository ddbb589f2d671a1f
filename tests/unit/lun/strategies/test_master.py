"""What an fp32 master of bfloat16 weights cannot be right for."""

from typing import Any

import pytest
import yaml
from support.models import CONFIG

from ldm.errors import Fault
from lun.run.build_model import build_model
from lun.strategies.master import require_master

MASTER = {"target": "lun.strategies.precision.Bf16Master"}


def model(**params: Any) -> Any:
    return build_model(yaml.safe_load(CONFIG.read_text()), **params)


@pytest.mark.parametrize("precision", ["bf16-master", MASTER])
def test_a_schedule_free_optimizer_is_refused(precision: Any) -> None:
    with pytest.raises(Fault, match="schedulefree.AdamWScheduleFree cannot be used in bf16-master") as refusal:
        require_master(model(optimizer_config={"target": "schedulefree.AdamWScheduleFree"}), precision)
    assert refusal.value.id == "CFG08"


def test_other_precisions_and_optimizers_pass() -> None:
    require_master(model(optimizer_config={"target": "schedulefree.AdamWScheduleFree"}), "bf16-mixed")
    require_master(model(), "bf16-master")
