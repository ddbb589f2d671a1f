"""How far two sets of pictures are apart, by their features; and which of one lie nearest to which of the other."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torchmetrics.image.fid import FrechetInceptionDistance

from ldm.transfers import in_double

BLOCK = 1024
CMMD_SIGMA, CMMD_SCALE = 10.0, 1000.0


@dataclass(frozen=True)
class NearestFeatures:
    """cosine  (n,) of each of n features with the nearest of others
    index   (n,) which that is
    """

    cosine: Tensor
    index: Tensor


class _GivenFeatures(nn.Identity):
    """Stands for the encoder of torchmetrics' metric, which is handed features already."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features


def frechet_distance(first: Tensor, second: Tensor) -> float:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)) of features (n, d) and (m, d), with means m and covariances C.

    Heusel et al. 2017 (arXiv 1706.08500), equation 6, with the features of whatever encoder made them, so that it is
    FID only of Inception's. ValueError for fewer than two of either.
    """
    if min(len(first), len(second)) < 2:
        raise ValueError("a covariance takes two features or more")
    first, second = in_double(first), in_double(second)
    centre = second.mean(0)  # sums of squares lose digits far from 0
    metric = FrechetInceptionDistance(feature=_GivenFeatures(first.shape[1]))
    metric.update(second - centre, real=True)
    metric.update(first - centre, real=False)
    return max(0.0, float(metric.compute()))


def cmmd(first: Tensor, second: Tensor) -> float:
    """1000 times the squared maximum mean discrepancy of embeddings (n, d) and (m, d) of length 1.

    Jayasumana et al. 2024 (arXiv 2401.09603): mean k(x, x') + mean k(y, y') - 2 mean k(x, y) with
    k(x, y) = exp(-|x - y|^2 / (2 sigma^2)), sigma = 10, over all pairs, each with itself too, as their program has it.
    """
    own = _mean_kernel(first, first) + _mean_kernel(second, second)
    return CMMD_SCALE * (own - 2 * _mean_kernel(first, second))


def _mean_kernel(first: Tensor, second: Tensor) -> float:
    x, y = in_double(first), in_double(second)
    total = sum(
        float(torch.cdist(block, y).square().div(-2 * CMMD_SIGMA**2).expm1().sum()) for block in x.split(BLOCK)
    )  # less 1 each, which cancels in the sum of the three: kernels near 1 would cancel in its place
    return total / (len(x) * len(y))


def clip_scores(pictures: Tensor, captions: Tensor) -> Tensor:
    """(n,) 100 times the cosine of embeddings (n, d) of pictures and of their captions (Hessel et al. 2021, arXiv
    2104.08718, which scales by 2.5); mean it."""
    return 100 * nn.functional.cosine_similarity(in_double(pictures), in_double(captions), dim=-1)


def nearest_features(own: Tensor, others: Tensor) -> NearestFeatures:
    """Of each of `own` (n, d) the nearest of `others` (m, d), by cosine."""
    directions = nn.functional.normalize(others.float(), dim=-1)
    blocks = [(nn.functional.normalize(block.float(), dim=-1) @ directions.T).max(dim=1) for block in own.split(BLOCK)]
    return NearestFeatures(torch.cat([one.values for one in blocks]), torch.cat([one.indices for one in blocks]))
