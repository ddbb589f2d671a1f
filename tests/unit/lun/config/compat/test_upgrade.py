import copy
import itertools
from contextlib import suppress

import pytest
from support.fuzzing import places, put
from support.runs import TINY

from ldm.errors import Fault
from ldm.util import get_obj_from_str
from lun.config.compat.import_paths import MOVED
from lun.config.compat.lightning1_trainer import STRATEGIES
from lun.config.compat.upgrade import upgrade
from lun.config.reading.load_layers import Merged, load_layers
from lun.strategies.strategy_names import NAMES

PL = "pytorch_lightning.callbacks.ModelCheckpoint"
SAVER = "lun.callbacks.Checkpoint"


def upgraded(config):
    before = copy.deepcopy(config)
    merged, notes, faults = upgrade(Merged(config))
    assert config == before, "the configuration was changed in place"
    return merged.config, "\n".join(notes), faults


def callbacks(**given):
    config, notes, _ = upgraded({"lightning": {"callbacks": given}})
    return config["lightning"]["callbacks"], notes


def test_a_configuration_in_todays_spelling_is_left_alone():
    config = {
        "model": {"target": "ldm.models.diffusion.ddpm.LatentDiffusion", "params": {"timesteps": 1000}},
        "lightning": {
            "trainer": {"max_steps": 5, "check_val_every_n_epoch": None},
            "callbacks": {"c": {"target": SAVER, "params": {"filename": "x"}}, "gone": None},
        },
    }
    assert upgraded(config) == (config, "", [])


@pytest.mark.parametrize("target", [[], {}, 3, [SAVER]])
def test_a_target_that_is_no_text_is_left_to_the_check(target):
    assert callbacks(c={"target": target}) == ({"c": {"target": target}}, "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pytorch_lightning.callbacks.LearningRateMonitor", "lightning.pytorch.callbacks.LearningRateMonitor"),
        ("pytorch_lightning.loggers.CSVLogger", "lightning.pytorch.loggers.CSVLogger"),
        (
            "pytorch_lightning.loggers.tensorboard.TensorBoardLogger",
            "lightning.pytorch.loggers.tensorboard.TensorBoardLogger",
        ),
        ("main.ImageLogger", "lun.callbacks.ImageLogger"),
        ("main.DataModuleFromConfig", "lun.data.module.DataModuleFromConfig"),
        ("lun.data.local.LocalBase", "lun.data.local.Local"),
        ("ldm.modules.encoders.modules.FrozenCLIPEmbedder", "ldm.modules.encoders.clip.FrozenCLIPEmbedder"),
        ("ldm.modules.diffusionmodules.openaimodel.UNetModel", "ldm.modules.networks.compvis.UNetModel"),
    ],
)
def test_old_import_paths_are_replaced_at_any_depth(old, new):
    config, notes, _ = upgraded({"data": {"params": {"x_config": [{"target": old, "params": {"a": {"target": old}}}]}}})
    assert config["data"]["params"]["x_config"] == [{"target": new, "params": {"a": {"target": new}}}]
    assert f"{old} -> {new}" in notes


@pytest.mark.parametrize("target", [PL, "lightning.pytorch.callbacks.model_checkpoint.ModelCheckpoint"])
def test_model_checkpoint_becomes_the_saver_of_our_own(target):
    params = {
        "filename": "f",
        "every_n_train_steps": 5,
        "monitor": "val/a/",
        "mode": "min",
        "save_top_k": 3,
        "dirpath": "d",
        "auto_insert_metric_name": False,
        "save_last": True,
        "verbose": True,
    }
    found, notes = callbacks(mine={"target": target, "params": params})
    assert found["mine"] == {
        "target": SAVER,
        "params": {
            "filename": "f",
            "every_n_train_steps": 5,
            "monitor": "val/a",
            "mode": "min",
            "save_top_k": 3,
            "dirpath": "d",
        },
    }
    assert "val/a/ is read as val/a" in notes
    assert "without auto_insert_metric_name, save_last, verbose" in notes


def test_a_saver_without_file_name_gets_one():
    found, _ = callbacks(mine={"target": PL, "params": {"every_n_train_steps": 5}})
    assert found["mine"]["params"]["filename"] == "e={epoch:04d} gs={step:06d}"


def test_the_unnamed_monitored_checkpoint_is_a_saver():
    found, notes = callbacks(monitored_checkpoint={"params": {"monitor": "val/a", "filename": "f"}})
    assert found["monitored_checkpoint"] == {"target": SAVER, "params": {"monitor": "val/a", "filename": "f"}}
    assert "has no target" in notes


def test_a_saver_that_counts_epochs_alone_is_left_out_with_a_note():
    found, notes = callbacks(epoch_checkpoint={"target": PL, "params": {"every_n_epochs": 1, "filename": "epoch/x"}})
    assert found == {}
    assert "epoch_checkpoint is left out" in notes


def test_a_saver_by_time_counts_minutes():
    params = {"filename": "f", "train_time_interval": {"hours": 1, "minutes": 5}}
    found, _ = callbacks(mine={"target": PL, "params": params})
    assert found["mine"]["params"] == {"filename": "f", "every_minutes": 65}


def test_the_saver_section_of_compvis_becomes_a_callback():
    config, _, _ = upgraded({"lightning": {"modelcheckpoint": {"params": {"every_n_train_steps": 9, "filename": "f"}}}})
    assert config["lightning"]["callbacks"] == {
        "monitored_checkpoint": {"target": SAVER, "params": {"every_n_train_steps": 9, "filename": "f"}}
    }
    assert "modelcheckpoint" not in config["lightning"]


def test_null_that_removes_a_callback_stays():
    assert callbacks(image_logger=None)[0] == {"image_logger": None}


def test_old_keys_of_the_image_logger_go():
    params = {
        "batch_frequency": 5,
        "increase_log_steps": False,
        "log_first_step": True,
        "check_custom_step": 1,
        "log_on_batch_idx": True,
    }
    found, notes = callbacks(images={"target": "main.ImageLogger", "params": params})
    assert found["images"] == {"target": "lun.callbacks.ImageLogger", "params": {"batch_frequency": 5}}
    assert "increase_log_steps" in notes


def test_callbacks_without_a_successor_are_left_out_or_replaced():
    found, notes = callbacks(
        save={"target": "lun.callbacks.CustomCheckpointing"},
        setup={"target": "main.SetupCallback"},
        vram={"target": "lun.callbacks.EpochVram", "params": {"x": 1}},
    )
    assert found == {"vram": {"target": "lun.callbacks.Throughput"}}
    assert "lightning.callbacks.save" in notes
    assert "lightning.callbacks.vram" in notes


def test_one_bare_logger_gets_a_name():
    config, _, _ = upgraded(
        {
            "lightning": {
                "logger": {
                    "target": "pytorch_lightning.loggers.CSVLogger",
                    "params": {"name": "csv"},
                    "board": {"target": "a.B"},
                }
            }
        }
    )
    assert config["lightning"]["logger"] == {
        "board": {"target": "a.B"},
        "csv": {"target": "lightning.pytorch.loggers.CSVLogger", "params": {"name": "csv"}},
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"gpus": "0,"}, {"accelerator": "gpu", "devices": "0,"}),
        ({"gpus": 0}, {"accelerator": "cpu", "devices": 1}),
        ({"gpus": None}, {}),
        ({"gpus": 2, "accelerator": "ddp"}, {"accelerator": "auto", "strategy": "ddp", "devices": 2}),
        ({"gpus": 2, "devices": 1}, {"devices": 1}),
        ({"gpus": 2, "accelerator": "ddp_spawn"}, {"accelerator": "auto", "strategy": "ddp", "devices": 2}),
        ({"strategy": "fsdp_native"}, {"strategy": "fsdp"}),
        ({"strategy": "fsdp_native_full_shard_offload"}, {"strategy": "fsdp_cpu_offload"}),
        ({"strategy": "ddp_sharded"}, {"strategy": "fsdp"}),
        ({"strategy": "ddp_sharded_spawn_find_unused_parameters_false"}, {"strategy": "fsdp"}),
        ({"strategy": "ddp_find_unused_parameters_false"}, {"strategy": "ddp"}),
        (
            {"strategy": "ddp_fork_find_unused_parameters_true"},
            {"strategy": "ddp_find_unused_parameters_true"},
        ),
        ({"strategy": "horovod"}, {"strategy": "horovod"}),
        ({"num_processes": 2}, {"accelerator": "cpu", "devices": 2}),
        ({"precision": 16}, {"precision": "16-mixed"}),
        ({"precision": "bf16"}, {"precision": "bf16-mixed"}),
        ({"precision": 32}, {"precision": 32}),
        ({"replace_sampler_ddp": False}, {}),
        ({"amp_backend": "native", "amp_level": None, "track_grad_norm": 2, "weights_save_path": None}, {}),
        ({"check_val_every_n_epoch": 2}, {"val_check_interval": 2.0}),
        ({"check_val_every_n_epoch": 2, "val_check_interval": 50}, {"val_check_interval": 50}),
        ({"tpu_cores": None}, {}),
        ({"tpu_cores": 8}, {"tpu_cores": 8}),
        ({"resume_from_checkpoint": "a.ckpt"}, {"resume_from_checkpoint": "a.ckpt"}),
    ],
)
def test_trainer_arguments_are_translated_where_the_meaning_is_certain(given, expected):
    config, _, _ = upgraded({"lightning": {"trainer": given}})
    assert config["lightning"]["trainer"] == {**expected, "check_val_every_n_epoch": None}


@pytest.mark.parametrize("old", STRATEGIES)
def test_an_old_name_of_a_strategy_stands_for_one_that_is_here_and_is_told(old):
    config, notes, _ = upgraded({"lightning": {"trainer": {"strategy": old}}})
    new = config["lightning"]["trainer"]["strategy"]
    assert new in NAMES
    assert f"lightning.trainer.strategy: {old} is read as {new}" in notes


def test_a_dropped_trainer_argument_is_told_with_its_reason():
    _, notes, _ = upgraded({"lightning": {"trainer": {"amp_backend": "native"}}})
    assert "amp_backend (removed in Lightning 2.0: native AMP is always used)" in notes


def model(**params):
    recipe = {"target": "ldm.models.diffusion.ddpm.LatentDiffusion", "params": params}
    config, notes, faults = upgraded({"model": recipe})
    return config["model"]["params"], notes, faults


def test_model_parameters_without_effect_are_dropped_in_one_note():
    params, notes, faults = model(
        timesteps=5,
        first_stage_trainable=False,
        num_timesteps_cond=1,
        conditioning_key="crossattn",
        use_positional_encodings=False,
        learn_logvar=False,
        logvar_init=0.0,
        original_elbo_weight=0.0,
        l_simple_weight=1.0,
        given_betas=None,
        v_posterior=0.0,
    )
    assert params == {"timesteps": 5}
    assert notes.count("without effect here, ignored") == 1
    assert faults == []


@pytest.mark.parametrize(
    "asked",
    [
        {"learn_logvar": True},
        {"first_stage_trainable": True},
        {"original_elbo_weight": 0.1},
        {"conditioning_key": "concat"},
        {"num_timesteps_cond": 2},
        {"personalization_config": {"target": "a.B"}},
        {"use_positional_encodings": True},
        {"l_simple_weight": 0.5},
    ],
)
def test_model_parameters_that_ask_for_what_is_not_here_are_refused(asked):
    params, _, faults = model(**asked)
    assert params == {}
    (fault,) = faults
    assert fault.id == "CFG03"
    assert fault.what.startswith(f"model.params.{next(iter(asked))} is not available")
    assert fault.why


def test_a_refusal_tells_the_line(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("model:\n  target: ldm.models.diffusion.ddpm.DDPM\n  params:\n    learn_logvar: true\n")
    _, _, (fault,) = upgrade(load_layers([str(file)]))
    assert fault.where.endswith("a.yaml:4)")


def test_parameters_of_other_models_are_left_alone():
    config, _, faults = upgraded({"model": {"target": "mine.Model", "params": {"learn_logvar": True}}})
    assert config["model"]["params"] == {"learn_logvar": True}
    assert faults == []


def test_the_monitor_of_an_old_autoencoder_loses_its_slash():
    config, notes, _ = upgraded(
        {
            "model": {
                "target": "ldm.models.autoencoder.AutoencoderKL",
                "params": {"monitor": "val/rec_loss/", "colorize_nlabels": None},
            }
        }
    )
    assert config["model"]["params"] == {"monitor": "val/rec_loss"}
    assert "val/rec_loss/ is read as val/rec_loss" in notes


OLD = {
    "model": {"target": "ldm.models.diffusion.ddpm.LatentDiffusion", "params": {"use_ema": True}},
    "data": {
        "params": {
            "train": {
                "target": "lun.data.local.LocalBase",
                "params": {"mode": "train", "metadata_params": {"min_score": 1}},
            }
        }
    },
    "lightning": {"trainer": {"amp_backend": "native"}},
}


def test_an_old_configuration_keeps_its_ema_and_is_told_what_differs():
    config, notes, _ = upgraded(OLD)
    assert config["model"]["params"] == {
        "ema_config": {"target": "ldm.modules.ema.LitEma", "params": {"decay": 0.9995, "update_every": 100}}
    }
    assert "--scale_lr linear" in notes
    assert "without abs_min_score no picture is rejected by its score (it was 25" in notes
    assert "without min_score" not in notes


def test_the_mode_of_the_first_local_dataset_goes():
    config, notes, _ = upgraded(OLD)
    assert "mode" not in config["data"]["params"]["train"]["params"]
    assert "mode: train of lun.data.local.LocalBase is ignored: data.params.train" in notes


@pytest.mark.parametrize("params", [{"use_ema": False}, {"ema_decay": 0.9}, {"ema_config": {"target": "a.B"}}])
def test_an_old_configuration_with_a_word_on_the_ema_keeps_it(params):
    config = {**OLD, "model": {**OLD["model"], "params": params}}
    assert upgraded(config)[0]["model"]["params"] == params


def test_an_old_discriminator_is_told_that_its_start_counts_steps_when_accumulating():
    loss = {"target": "x.Y", "params": {"disc_start": 500}}
    config = {
        "model": {"target": "ldm.models.autoencoder.AutoencoderKL", "params": {"lossconfig": loss}},
        "lightning": {"trainer": {"amp_backend": "native", "accumulate_grad_batches": 2}},
    }
    assert "disc_start counts steps" in upgraded(config)[1]


def test_a_slash_after_an_old_metric_is_taken_off_a_saver_that_has_its_target_from_another_file():
    params = {"monitor": "val/rec_loss/", "filename": "monitor/loss={val/rec_loss/:.3f}", "save_top_k": 1}
    config = {"lightning": {"callbacks": {"best": {"target": "lun.callbacks.Checkpoint", "params": params}}}}
    found = upgraded(config)[0]["lightning"]["callbacks"]["best"]["params"]
    assert found == {"monitor": "val/rec_loss", "filename": "monitor/loss={val/rec_loss:.3f}", "save_top_k": 1}


def test_upgrading_twice_changes_nothing_more():
    once, _, _ = upgraded(OLD)
    assert upgraded(once)[0] == once


def test_parameters_of_2022_without_effect_are_dropped_wherever_they_stand():
    encoder = {
        "target": "ldm.modules.encoders.modules.FrozenCLIPEmbedder",
        "params": {"device": "cuda", "version": "a"},
    }
    config, notes, _ = upgraded(
        {
            "model": {"params": {"cond_stage_config": encoder}},
            "data": {"target": "main.DataModuleFromConfig", "params": {"wrap": False, "use_worker_init_fn": True}},
        }
    )
    assert config["model"]["params"]["cond_stage_config"]["params"] == {"version": "a"}
    assert config["data"]["params"] == {}
    assert "device: cuda of ldm.modules.encoders.modules.FrozenCLIPEmbedder is ignored" in notes
    assert "use_worker_init_fn: True" in notes and "wrap" not in notes


ODD = (None, True, -1, 0.5, 10**400, "", "x", [], [1], {}, {"target": 3}, {"x": 1})
SPELT_AS_THEN = {
    "model": {
        "target": "ldm.models.diffusion.ddpm.LatentDiffusion",
        "params": {"monitor": "val/loss/", "use_ema": True, "conditioning_key": "crossattn", "ema_decay": 0.9},
    },
    "lightning": {
        "modelcheckpoint": {"target": PL, "params": {"every_n_train_steps": 3}},
        "callbacks": {
            "a": {"target": PL, "params": {"train_time_interval": {"minutes": 3}, "monitor": "val/loss/"}},
            "b": {"target": "main.ImageLogger", "params": {"increase_log_steps": True}},
            "c": {"target": SAVER, "params": {"monitor": "val/loss/", "filename": "x-{val/loss/}"}},
        },
        "logger": {"target": "pytorch_lightning.loggers.CSVLogger", "params": {"name": "x"}},
        "trainer": {"gpus": 1, "accelerator": "ddp", "precision": 16, "check_val_every_n_epoch": 2},
    },
}


def test_anything_at_any_place_of_an_old_configuration_is_left_to_the_check():
    files = sorted((TINY.parent / "compat").glob("*.yaml"))
    configs = [SPELT_AS_THEN, *(load_layers([str(file)]).config for file in files)]
    tried = 0
    for config in configs:
        for place, odd in itertools.product(places(config), ODD):
            if place:
                with suppress(Fault):
                    upgrade(Merged(put(config, place, odd)))
                tried += 1
    print(tried, "cases")
    assert tried > 1000


@pytest.mark.parametrize("target", [PL, SAVER, "main.ImageLogger"])
@pytest.mark.parametrize("params", [5, [1], "x"])
def test_params_that_are_no_map_are_kept_for_the_check_to_name(target, params):
    config, _ = callbacks(c={"target": target, "params": params})
    assert config["c"]["params"] == params


def test_each_module_that_was_moved_goes_on_under_its_old_path():
    old = ["block_swap.BlockSwap", "compiled_blocks.CompiledBlocks", "fused_backward.FusedBackward"]
    for path in (f"lun.callbacks.{name}" for name in old):
        assert callbacks(x={"target": path})[0] == {"x": {"target": f"lun.callbacks.{path.rpartition('.')[2]}"}}
    ours = [path for path in MOVED.values() if path.startswith(("ldm.", "lun."))]
    assert [path for path in ours if not callable(get_obj_from_str(path))] == []
