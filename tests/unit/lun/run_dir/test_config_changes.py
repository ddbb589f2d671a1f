from lun.run_dir.config_changes import changed_settings, stored_settings


def test_each_setting_that_differs_is_listed_with_both_values():
    before = {"seed": 0, "model": {"rate": 1e-5, "params": {"ema": {"decay": 0.9}}}, "old": {"a": 1}}
    now = {"seed": 0, "model": {"rate": 5e-6, "params": {"ema": None, "new": [1, 2]}}}
    assert changed_settings(before, now) == [
        "model.rate: 1e-05 -> 5e-06",
        "model.params.ema: {'decay': 0.9} -> null",
        "model.params.new: not set -> [1, 2]",
        "old: {'a': 1} -> not set",
    ]


def test_a_callback_that_is_taken_out_is_one_line():
    logger = {"target": "lun.callbacks.ImageLogger", "params": {"prompts": ["a"], "clamp": True, "max_images": 4}}
    before = {"lightning": {"callbacks": {"image_logger": logger}}}
    now = {"lightning": {"callbacks": {"image_logger": None}}}
    assert changed_settings(before, now) == ["lightning.callbacks.image_logger: lun.callbacks.ImageLogger -> null"]


def test_the_same_settings_in_another_order_are_no_change():
    assert changed_settings({"a": 1, "b": {"c": [2], "d": {}}}, {"b": {"d": {}, "c": [2]}, "a": 1}) == []


def test_long_values_are_cut():
    (line,) = changed_settings({"a": 1}, {"a": "x" * 100})
    assert line == "a: 1 -> " + "x" * 59 + "…"


def test_a_run_without_a_stored_configuration_has_nothing_to_compare(tmp_path):
    assert stored_settings(tmp_path / "resolved.yaml") is None
    (tmp_path / "resolved.yaml").write_text("a: [")
    assert stored_settings(tmp_path / "resolved.yaml") is None
    (tmp_path / "resolved.yaml").write_text("a: {b: 1.0e-05}")
    assert stored_settings(tmp_path / "resolved.yaml") == {"a": {"b": 1e-5}}
