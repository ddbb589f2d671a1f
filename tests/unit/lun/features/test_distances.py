"""Distances between sets of features equal their closed forms."""

import numpy as np
import pytest
import torch
from support.on_metal import on_metal
from torch import Tensor

from lun.features.distances import clip_scores, cmmd, frechet_distance, nearest_features

N, M, D = 40, 30, 5


def features(count: int, seed: int, shift: float = 0.0) -> Tensor:
    numbers = torch.Generator().manual_seed(seed)
    return torch.randn(count, D, generator=numbers) * torch.arange(1, D + 1) + shift


def root(matrix: np.ndarray) -> np.ndarray:
    """The square root of a symmetric positive matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values.clip(0))) @ vectors.T


@pytest.mark.parametrize("shift", [0.0, 3.0, 1000.0])
def test_the_frechet_distance_is_that_of_two_normal_distributions(shift: float) -> None:
    first, second = features(N, 0, shift), features(M, 1, shift + 1)
    a, b = first.double().numpy(), second.double().numpy()
    ca, cb = np.cov(a.T), np.cov(b.T)
    cross = np.trace(root(root(ca) @ cb @ root(ca)))
    expected = ((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(ca) + np.trace(cb) - 2 * cross
    assert frechet_distance(first, second) == pytest.approx(expected, rel=1e-6)


def test_equal_sets_are_no_distance_apart() -> None:
    same = torch.nn.functional.normalize(features(N, 0), dim=-1)
    assert frechet_distance(same, same) == pytest.approx(0, abs=1e-6)
    assert cmmd(same, same) == pytest.approx(0, abs=1e-9)


def test_one_feature_has_no_covariance() -> None:
    with pytest.raises(ValueError, match="two"):
        frechet_distance(features(1, 0), features(5, 1))


def test_cmmd_is_the_mean_of_kernels_over_all_pairs() -> None:
    first, second = (torch.nn.functional.normalize(features(n, n), dim=-1) for n in (N, M))

    def kernel(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean([[np.exp(-((i - j) ** 2).sum() / 200) for j in y] for i in x]))

    a, b = first.double().numpy(), second.double().numpy()
    assert cmmd(first, second) == pytest.approx(1000 * (kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)), rel=1e-9)


def test_a_clip_score_is_a_hundred_times_the_cosine() -> None:
    pictures, captions = features(N, 0), features(N, 1)
    a, b = pictures.double().numpy(), captions.double().numpy()
    expected = 100 * (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(clip_scores(pictures, captions).numpy(), expected)


def test_the_nearest_is_found_of_each_by_its_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lun.features.distances.BLOCK", 7)
    own, others = features(N, 0), features(M, 1)
    others[4] = 3 * own[2]
    found = nearest_features(own, others)
    a, b = (x.double().numpy() / np.linalg.norm(x.double().numpy(), axis=1)[:, None] for x in (own, others))
    np.testing.assert_array_equal(found.index.numpy(), (a @ b.T).argmax(1))
    assert found.index[2] == 4 and found.cosine[2] == pytest.approx(1)


def test_distances_are_the_same_on_an_apple_gpu() -> None:
    first, second = features(N, 0), features(N, 1)
    for distance in (frechet_distance, cmmd):
        assert distance(on_metal(first), on_metal(second)) == distance(first, second)
    torch.testing.assert_close(clip_scores(on_metal(first), on_metal(second)), clip_scores(first, second))
