"""Every number that a config can give: of nonsense something is built, or it is refused by id.

What is no finite number is refused before anything is built (`integration/test_settings_alone.py`).
"""

import logging
import math
import warnings
from typing import Any

import pytest
from effects.test_constructors import BASE, BESIDE, CASES, PARTS, SETTINGS, handed, parameters

from ldm.diffusion.number_limits import Interval
from ldm.errors import Fault
from ldm.util import instantiate_from_config
from lun.config.schema import alternatives

NONSENSE = (0, -1, 2, 10**9, math.nan, math.inf)
HUGE = (".networks.", ".adapters.", ".encoders.", ".losses.", ".autoencoder.", ".ddpm.", ".path.", "global_batch")
"""10^9 channels, or timesteps, are what is asked for, and no memory holds them."""


def values(path: str, name: str) -> list[Any]:
    """The nonsense that the parameter's type lets in."""
    kinds = alternatives(parameters(PARTS[path])[name].annotation)
    fitting = [value for value in NONSENSE if float in kinds or (int in kinds and isinstance(value, int))]
    return [value for value in fitting if not (value == 10**9 and any(word in f"{path}.{name}" for word in HUGE))]


def refusal_of(path: str, name: str, value: Any) -> str:
    short = f"{path.rpartition('.')[2]}.{name}"
    params = {**BASE.get(path, {}), **BESIDE.get(short, BESIDE.get(name, {})), name: value}
    try:
        instantiate_from_config({"target": path, "params": params}, *handed(path))
    except Fault as fault:
        return fault.id
    except Exception as error:  # all of them are told at once
        return f"{short}={value}: {error!r}"
    return ""


@pytest.mark.parametrize("path", sorted({path for path, _ in CASES} - SETTINGS.keys()))
def test_a_number_that_makes_no_sense_is_built_or_refused_by_id(path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    names = [name for kind, name in CASES if kind == path]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [refusal_of(path, name, value) for name in names for value in values(path, name)]
    assert [told for told in found if len(told) > 5] == []


OBJECTIVE = sorted(path for path in PARTS if path.startswith("ldm.diffusion."))
NUMBERS = [
    (path, name)
    for path in OBJECTIVE
    for name, parameter in parameters(PARTS[path]).items()
    if {int, float} & set(alternatives(parameter.annotation)) and bool not in alternatives(parameter.annotation)
]


NUMBERS += [
    (path, name) for path in PARTS if path.endswith(".ddpm.LatentDiffusion") for name in sorted(PARTS[path].limits)
]


def beyond(interval: Interval, whole: bool) -> list[float]:
    """The numbers next to an interval, and what is no number."""
    step = 1 if whole else 1e-6
    ends = [interval.least if interval.beyond else interval.least - step, interval.most + step]
    return [*(end for end in ends if math.isfinite(end)), math.nan, math.inf, -math.inf]


@pytest.mark.parametrize(("path", "name"), NUMBERS, ids=[f"{path.rpartition('.')[2]}.{name}" for path, name in NUMBERS])
def test_every_number_of_the_objective_has_limits_and_is_refused_beyond_them(path: str, name: str) -> None:
    interval = PARTS[path].limits[name]
    kinds = alternatives(parameters(PARTS[path])[name].annotation)
    refused = {refusal_of(path, name, value) for value in beyond(interval, int in kinds and float not in kinds)}
    assert refused == {"CFG03"}
