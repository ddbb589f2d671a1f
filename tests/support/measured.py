"""What the CPU's allocator gave out while something ran."""

import gc
from collections.abc import Callable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity

STEP = "Optimizer.step#"


def peak_of_steps(run: Callable[[], object]) -> int:
    """The most bytes that were given out at once in what `run` does, from its first optimizer step to its last.

    As the allocator itself tells torch's profiler, so that what operations take within counts, too.
    """
    gc.collect()  # what goes while it runs, and was there before, would be taken off
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    assert profiler.profiler is not None and profiler.profiler.kineto_results is not None
    events = sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    steps = [event for event in events if event.name().startswith(STEP)]
    now = peak = 0
    for event in events:
        if event.name() == "[memory]" and event.device_type() == DeviceType.CPU:
            now += event.nbytes()
            if steps[0].start_ns() <= event.start_ns() <= steps[-1].end_ns():
                peak = max(peak, now)
    return peak
