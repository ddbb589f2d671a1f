"""Which metrics share a plot."""

from lun.report.chart_groups import chart_data, chart_groups, title_of
from lun.report.curves import MetricCurve


def test_losses_share_a_plot_and_speeds_do_not():
    titles = [title_of(name) for name in ("train/loss", "val/loss_simple_ema", "perf/step_ms", "mem/a", "lr_abs", "x")]
    assert titles == ["Loss", "Loss", "perf/step_ms", "mem", "Learning rate", "x"]


def test_a_family_of_metrics_is_one_plot_after_the_losses():
    names = ["mem/a", "perf/b", "lr/x", "grad/norm", "train/loss_by_snr/1", "train/loss_by_snr/2", "val/loss"]
    curves = {name: MetricCurve([0], [float(place)]) for place, name in enumerate(names)}
    groups = chart_groups(curves)
    assert [group.title for group in groups] == [
        "Loss",
        "train/loss_by_snr",
        "grad",
        "Learning rate",
        "perf/b",
        "mem",
    ]
    assert groups[1].names == ["train/loss_by_snr/1", "train/loss_by_snr/2"]


def test_equal_curves_are_one_line_with_both_names_and_few_digits():
    curves = {"train/loss": MetricCurve([1], [1 / 3]), "train/loss_simple": MetricCurve([1], [1 / 3])}
    (chart,) = chart_data(chart_groups(curves), curves)
    assert chart["lines"] == [{"label": "train/loss = train/loss_simple", "steps": [1], "values": [0.333333]}]
