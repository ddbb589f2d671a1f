"""Datasets without files: the least there is, and one with every member that is asked for."""

import torch


class Colours:
    """Eight plain colours with their names."""

    names = ["black", "blue", "green", "cyan", "red", "magenta", "yellow", "white"]

    def __init__(self, size: int = 8) -> None:
        self.size = size

    def __len__(self):
        return len(self.names)

    def example(self, index, draws):
        colour = torch.tensor([index >> 2 & 1, index >> 1 & 1, index & 1]) * 2.0 - 1.0
        shade = torch.rand((), generator=draws("shade")) * 0.2
        return {"image": (colour * (1 - shade)).expand(self.size, self.size, 3), "caption": self.names[index]}


class All(Colours):
    """Every member that buckets, caches, counts and checks ask for; every second colour is wide."""

    def sizes(self):
        return [(16, 8) if index % 2 else (8, 8) for index in range(8)]

    def repeats(self):
        return [1, 1, 1, 1, 1, 1, 2, 2]

    def weights(self):
        return [1.0] * 7 + [2.0]

    def path(self, index):
        return self.names[index]

    def fingerprint(self):
        return "colours, first edition"

    def tags(self):
        return [[name, "bright" if name == "white" else "dull"] for name in self.names]

    def flipped(self, draws):
        return torch.rand((), generator=draws("flip")).item() < 0.5

    def caption(self, index, draws=None):
        return self.names[index]

    def preparation(self):
        return "plain"

    def picture(self, index, flipped, size=None):
        width, height = size or (8, 8)
        colour = torch.tensor([index >> 2 & 1, index >> 1 & 1, index & 1]) * 2.0 - 1.0
        ramp = torch.linspace(1, 0.5, width)[None, :, None].expand(height, width, 3)
        return {"image": colour * (ramp.flip(1) if flipped else ramp)}

    def example(self, index, draws, size=None):
        return {**self.picture(index, self.flipped(draws), size), "caption": self.caption(index)}
