"""Which measurements there are, the rows that each has to give, and the goals that they are held against.

The page shows all of them in this order; what was not measured is marked "not run".
"""

from typing import NamedTuple

SCRIPT = "diffusers' script"
FOREACH = f"{SCRIPT}, --foreach_ema"
INDUCTOR = f"{FOREACH}, inductor"
CACHED, COMPILED = "lun, latent-cache", "lun, compile"
GRAPHS = (f"{COMPILED}, CUDA graphs", f"{COMPILED}, one CUDA graph")


class Measurement(NamedTuple):
    """`script` in this folder or beside it, and its JSON; `words` are its arguments; `about` says the settings."""

    name: str
    title: str
    script: str
    rows: tuple[str, ...]
    about: str
    kind: str = "cpu"
    words: tuple[str, ...] = ()


class Goal(NamedTuple):
    """What a number of a row should be: its value where `column` is "", at most or at least the limit."""

    text: str
    measurement: str
    row: str
    column: str
    limit: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


MEASUREMENTS = (
    Measurement(
        "start",
        "Start",
        "start.py",
        (
            "import torch",
            "imports of diffusers' script",
            "imports of training",
            "--help",
            "--print-config",
            "a misspelt setting",
            "a value of the wrong type",
            "a folder that is not there",
            "--check",
            "the plan",
            "--check, the first time",
            "the plan, the first time",
            "the demo: one step and its save",
            "34.3 M from disk: one step and its save",
            f"34.3 M from disk: {SCRIPT}",
        ),
        "A process from its beginning to its end, bytecode present, one thread, after a first start that kept "
        "under `LUN_CACHE` what it had found of networks; `the first time` there was none. What diffusers' script "
        "imports, and what no training can do without (torch, Lightning, the demo's network), is imported alone. The "
        "last two rows read the same model of 34.3 million parameters, take one step of one picture of 64 pixels, and "
        "save.",
        words=("--rounds", "2"),
    ),
    Measurement(
        "step",
        "Step",
        "step.py",
        (SCRIPT, FOREACH, "lun", CACHED),
        "A UNet of 34.3 million parameters, 128 pixels, batch 4, latents encoded online, fp32, AdamW, clipping, "
        "an average of the weights after every step, one thread; steps take turns in one process. The script is "
        "diffusers' text-to-image example written anew, with its defaults and with its best flag. With "
        "`latent-cache`, which the script lacks, pictures and captions were encoded before, and the network alone is "
        "left of the step.",
    ),
    Measurement(
        "compiled_step",
        "Compiled step",
        "step.py",
        (FOREACH, INDUCTOR, COMPILED),
        "The same step, the script with accelerate's `--dynamo_backend inductor` beside its best flag. Compiling "
        "itself, which takes minutes, is not counted, and keeps this apart: `bash scripts/bench.sh compiled`.",
        kind="compiled",
        words=("--compiled",),
    ),
    Measurement(
        "step_growth",
        "Step as the work grows",
        "step_growth.py",
        (
            *("batch 1", "batch 2", "batch 4", "batch 8"),
            *("64 pixels", "192 pixels", "256 pixels", "width 32: 8.6 M", "width 96: 77.1 M"),
        ),
        "As under Step, around a middle of 34.3 million parameters (width 64), 128 pixels, batch 2.",
    ),
    Measurement(
        "counts",
        "What can be counted of a step without a GPU",
        "counts.py",
        (SCRIPT, "lun", COMPILED, *GRAPHS),
        "On a pretended device: operations that compute, each counted as one launch; bytes of new storages; numbers "
        "that the host waits for, and copies from pageable memory. The network has all operations of Stable Diffusion "
        "1.x with 32 channels, in fp32, with AdamW as each chooses it on CUDA (`foreach`, fused), without averaged "
        "weights. Attention is one launch a pass. Compiled blocks count by the calls in Inductor's code: its own "
        "kernels, and those of libraries for convolutions, products and attention, which are the same as without. As "
        "CUDA graphs each pass of a block, or of the network, is one launch, and one that copies what it is given.",
    ),
    Measurement(
        "overhead",
        "What the program costs a step beside the network",
        "step_overhead.py",
        tuple(f"{tensors} tensors: {who}" for tensors in (8, 212) for who in ("raw loop", "bare Lightning", "lun")),
        "The network is the mean of 8,192 numbers in a few or many parameter tensors, so that nothing but the loop "
        "takes time. The raw loop reads, draws, clips, steps, averages, logs every 50 steps and keeps a bar; the "
        "others are beyond it. They take turns of 50 steps on one core: what is beyond is a turn less the mean of the "
        "raw loop's right before and after, the median of the quicker half of them. Calls are those of functions, in "
        "steps that are not timed.",
        words=("--turns", "30"),
    ),
    Measurement(
        "ema",
        "One update of averaged weights",
        "bench_ema.py",
        (
            "LitEma",
            "LitEma without a C compiler",
            "LitEma, widths 0.05 and 0.10",
            "torch AveragedModel, multi_avg_fn",
            "diffusers EMAModel(foreach=True)",
            "diffusers EMAModel",
            "CompVis formula",
            "Lightning EMAWeightAveraging",
        ),
        "A tenth of SD 1.x's UNet in fp32, one thread, each variant in a process of its own, over a flat `lerp_` timed "
        "right before each update. Extra peak memory is in copies of the weights.",
        words=("--share", "0.1", "--repeats", "3"),
    ),
    Measurement(
        "data_growth",
        "A folder of pictures as it grows",
        "data_growth.py",
        ("1,000 pictures", "10,000 pictures", "100,000 pictures", "1,000,000 pictures"),
        "Until the first batch of 16 is there, CPU time of one process; pictures of 16 pixels with captions beside "
        "them. The plain loop lists the pictures and looks for each one's caption. An example is read, decoded, "
        "collated.",
    ),
    Measurement(
        "scan",
        "Descriptions and pictures",
        "data_scan.py",
        (
            *("scan: plain", "scan: cold", "scan: warm"),
            *(
                f"JPEG of {size} to 512: {who}"
                for size in ("1024 x 1024", "1024 x 1536", "1600 x 1200")
                for who in ("plain", "lun")
            ),
        ),
        "20,000 JSON descriptions read and filtered, each file's CPU time over a loop of `glob`, `open` and "
        "`json.load`; JPEG files opened, cropped and reduced to numbers, over Pillow alone.",
        words=("--files", "20000"),
    ),
    Measurement(
        "pictures",
        "Pictures through the loader, and what the cache saves",
        "data.py",
        (
            "plain Pillow, one process",
            "loader, 0 workers",
            "loader, 2 workers",
            "loader in buckets, 0 workers",
            "loader, cached moments",
            "collate pictures",
            "map moments of the cache",
            "moments of the cache as one batch",
            "captions of the cache as one batch",
        ),
        "Each picture, JPEG of 1536 x 1024 to 512; CPU of the training process, in which workers do not count. "
        "Speed-ups are of wall time: over plain Pillow, and of the last four over collating.",
    ),
    Measurement(
        "ranks",
        "Strategies on CPU ranks",
        "ranks.py",
        (
            *(f"one rank: {name}" for name in ("plain", "DeepSpeed 1", "DeepSpeed 2")),
            *(f"two ranks: {name}" for name in ("DDP", "FSDP2", "DeepSpeed 2")),
        ),
        "A UNet of 8.5 million parameters, 64 pixels, batch 1 a rank, gloo, one thread a rank; CPU seconds of rank 0. "
        "So small a step shows what a strategy itself costs, and not what it saves.",
    ),
    Measurement(
        "throughput",
        "Pictures a second on one GPU",
        "../gpu/bench_throughput.py",
        (
            *(f"SD 1.5, 512 pixels, cached, batch {batch}" for batch in (32, 64, 1)),
            "SDXL, 1024 pixels, cached, batch 8",
            "SD 3 Medium, 1024 pixels, cached, batch 8",
        ),
        "Random weights of full size, bfloat16, latents and captions from the cache, averages on; steady state.",
        kind="gpu",
    ),
    Measurement(
        "strategies",
        "Strategies and precisions on one GPU",
        "../gpu/bench_strategies.py",
        (
            *(f"plain {name}" for name in ("32", "bf16-mixed", "bf16-mixed, frozen half")),
            *(f"plain {name}" for name in ("bf16-mixed, frozen offloaded", "16-mixed", "bf16-true")),
            *("fsdp bf16-mixed", "fsdp bf16-true"),
            *(f"deepspeed {stage} bf16-mixed" for stage in (1, 2, 3)),
            *("deepspeed 2 16-mixed", "deepspeed 2 offload", "deepspeed 3 offload"),
        ),
        "Full fine-tune of SD 1.x at 512 pixels, batch 4, pictures encoded at each step, random weights.",
        kind="gpu",
    ),
    Measurement(
        "numbers_cost",
        "What further numbers cost a step",
        "numbers_cost.py",
        ("the demo's step", "all numbers"),
        "CPU time of a step of the demo (batch 32, encoded online), and of what `configs/options/numbers.yaml` adds, "
        "counted within its own code while it trains; a log every 50 steps, one thread.",
        words=("--steps", "100"),
    ),
)

GOALS = (
    Goal(
        "a misspelt setting in half of `import torch`",
        "start",
        "a misspelt setting",
        "over import torch",
        0.5,
    ),
    Goal("the plan within 1.5 x `import torch`", "start", "the plan", "over import torch", 1.5),
    Goal(
        "training starts within 1.3 x its imports",
        "start",
        "the demo: one step and its save",
        "over imports of training",
        1.3,
    ),
    Goal(
        "start and save at most diffusers' script's",
        "start",
        "34.3 M from disk: one step and its save",
        f"over 34.3 M from disk: {SCRIPT}",
        1.0,
    ),
    Goal("a step never slower than diffusers' script with its best flag", "step", "lun", f"over {FOREACH}", 1.0),
    Goal(
        "a compiled step 1.3 x faster than the script with its best flags",
        "compiled_step",
        COMPILED,
        f"over {INDUCTOR}",
        1 / 1.3,
    ),
    Goal(
        "a step on latents that were encoded before, which the script cannot, 1.3 x faster than the script's best",
        "step",
        CACHED,
        f"over {FOREACH}",
        1 / 1.3,
    ),
    Goal("no more launches than diffusers' script, uncompiled", "counts", "lun", "over the script", 1.0),
    Goal("compiled, a fifth of them", "counts", "lun, compile", "over the script", 0.2),
    Goal("compiled as one CUDA graph, a fifth of them", "counts", GRAPHS[1], "over the script", 0.2),
    Goal(
        "compiled, Inductor's own kernels a fifth of them",
        "counts",
        "lun, compile",
        "of Inductor, over the script",
        0.2,
    ),
    Goal("the host waits for nothing between two logs", "counts", "lun", "waits of the host", 0),
    Goal("the program costs at most 300 us a step, 8 tensors", "overhead", "8 tensors: lun", "", 300),
    Goal("the same, 212 tensors", "overhead", "212 tensors: lun", "", 300),
    Goal("at most 500 us of CPU, 8 tensors", "overhead", "8 tensors: lun", "CPU us", 500),
    Goal("the same, 212 tensors", "overhead", "212 tensors: lun", "CPU us", 500),
    *(
        Goal(f"one H200, {row}: {limit} pictures a second", "throughput", row, "", limit, at_least=True)
        for row, limit in (
            ("SD 1.5, 512 pixels, cached, batch 32", 130),
            ("SD 1.5, 512 pixels, cached, batch 64", 145),
            ("SD 1.5, 512 pixels, cached, batch 1", 50),
            ("SDXL, 1024 pixels, cached, batch 8", 15),
            ("SDXL, 1024 pixels, cached, batch 8", 18),
            ("SDXL, 1024 pixels, cached, batch 8", 22),
        )
    ),
    Goal("further numbers cost at most 2 % of the demo's step", "numbers_cost", "all numbers", "share", 0.02),
)

NAMED = {measurement.name: measurement for measurement in MEASUREMENTS}
