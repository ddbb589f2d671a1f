"""How the learning rate moves over a run, as a line of text."""

from ldm.admission import admitted
from ldm.training.schedule import factors_of, is_torch_schedule
from ldm.util import Recipe

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 32
ONE_BY_ONE = 10_000
"""Steps up to which a schedule of torch's, which has to be gone through step by step, is drawn."""


def rate_course(recipe: Recipe | None, rate: float, max_steps: int) -> str | None:
    """`▁▄████▇▅▃▁  0.0e+00 at first, 4.0e-03 at most, 1.2e-08 at last`; None of a constant rate or an endless run."""
    if recipe is None or max_steps < 2 or not rate:
        return None
    if max_steps > ONE_BY_ONE and is_torch_schedule(admitted(recipe["target"])):
        return None
    factors = factors_of(recipe, [rate])
    count = min(WIDTH, max_steps)
    rates = [rate * factors(place * (max_steps - 1) // (count - 1))[0] for place in range(count)]
    most = max(rates)
    if most <= 0 or min(rates) == most:
        return None
    bars = "".join(BARS[round(max(one, 0.0) / most * (len(BARS) - 1))] for one in rates)
    return f"{bars}  {rates[0]:.1e} at first, {most:.1e} at most, {rates[-1]:.1e} at last"
