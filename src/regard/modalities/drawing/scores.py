"""How good drawn images are, by what a network sees in them: FID, KID and Inception Score.

    FID = |m1 - m2|^2 + Tr(S1 + S2 - 2 (S1 S2)^{1/2})    Heusel et al., 2017, https://arxiv.org/abs/1706.08500
    KID = MMD^2 with the kernel (x.y / d + 1)^3          Binkowski et al., 2018, https://arxiv.org/abs/1801.01401
    IS = exp(E_x KL(p(y|x) || p(y)))                     Salimans et al., 2016, https://arxiv.org/abs/1606.03498

FID compares mean and covariance of the features of two sets of images. KID compares the features themselves, and its
estimate has no bias, while FID is too large for few images. IS looks at one set: each image should be of one class, all
of them of many.

Images are added batch by batch, and what is kept of them does not grow with their number. Numbers of two networks, or
behind two ways of resizing, mean different things, so comparing them is an error.

Shapes: b batch, d features, c classes, r rank of a covariance, s splits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import InputError

SPLITS = 10  # of IS: its mean and deviation are those over so many parts of the images
KEPT = 1000  # features that are kept for KID, drawn at random: the usual size of its subsets
USUAL = 10_000  # images below which a FID is not to be compared with published ones


@dataclass(frozen=True, eq=False)
class ClassSums:
    """What IS needs of the probabilities of all images, for each split."""

    counts: Tensor  # (s,)
    certainty: Tensor  # (s,), sums of p(y|x) log p(y|x)
    classes: Tensor  # (s, c), sums of p(y|x)


@dataclass(frozen=True, eq=False)
class Features:
    """The features of a set of images: of which network, behind which resizing, and of how many."""

    network: str
    resize: str
    samples: int
    mean: Tensor  # (d,), float64
    covariance: Tensor  # (d, d), float64, divided by samples - 1
    kept: Tensor | None = None  # (k, d): at most KEPT of them, drawn at random
    classes: ClassSums | None = None  # None where the network has no classifier


class FeatureSums:
    """Sums over the features of a stream of images; ``features`` returns their moments at any time."""

    def __init__(self, network: str, resize: str) -> None:
        self.network, self.resize, self.samples = network, resize, 0
        self.random = torch.Generator().manual_seed(0)
        self.mean = self.spread = self.counts = self.certainty = self.classes = torch.zeros(0, dtype=torch.float64)
        self.kept, self.lots = torch.zeros(0), torch.zeros(0)
        self.splits = torch.zeros(0, dtype=torch.long)  # of the next images

    def add(self, features: Tensor, probabilities: Tensor | None = None) -> None:
        """(b, d), and (b, c) of a network with a classifier"""
        if not features.isfinite().all():
            raise InputError("a feature is not finite: the images cannot be compared", where=self.network)
        if not self.samples:
            self.start(features.shape[1], None if probabilities is None else probabilities.shape[1])
        self.add_moments(features.double())
        self.keep(features)
        if probabilities is not None:
            self.add_classes(probabilities.double())
        self.samples += len(features)

    def start(self, width: int, classes: int | None) -> None:
        self.mean = torch.zeros(width, dtype=torch.float64)
        self.spread = torch.zeros(width, width, dtype=torch.float64)
        if classes is not None:
            self.counts = torch.zeros(SPLITS, dtype=torch.float64)
            self.certainty = torch.zeros(SPLITS, dtype=torch.float64)
            self.classes = torch.zeros(SPLITS, classes, dtype=torch.float64)

    def add_moments(self, features: Tensor) -> None:
        """Around the mean so far: sums of squares would lose the digits of a small variance beside a large mean."""
        before, new = self.samples, len(features)
        own = features.mean(dim=0)
        centred, moved = features - own, own - self.mean
        self.spread += centred.mT @ centred + moved.outer(moved) * (before * new / (before + new))
        self.mean += moved * (new / (before + new))

    def keep(self, features: Tensor) -> None:
        """Those with the lowest of random lots: each set of so many is as likely."""
        lots = torch.cat((self.lots, torch.rand(len(features), generator=self.random)))
        rows = torch.cat((self.kept.reshape(-1, features.shape[1]), features.float()))
        self.lots, places = lots.topk(min(KEPT, len(lots)), largest=False)
        self.kept = rows[places]

    def add_classes(self, probabilities: Tensor) -> None:
        """Of every ten images each split gets one, by lot: in blocks, images sorted by class would make each split
        poor; in turn, so would ten classes that take turns."""
        while len(self.splits) < len(probabilities):
            self.splits = torch.cat((self.splits, torch.randperm(SPLITS, generator=self.random)))
        split, self.splits = self.splits[: len(probabilities)], self.splits[len(probabilities) :]
        self.counts += torch.bincount(split, minlength=SPLITS)
        self.certainty.index_add_(0, split, torch.special.xlogy(probabilities, probabilities).sum(dim=1))
        self.classes.index_add_(0, split, probabilities)

    def features(self) -> Features:
        if self.samples < 2:
            raise InputError("a covariance needs at least 2 images", got=str(self.samples), expected="2 or more")
        classes = ClassSums(self.counts, self.certainty, self.classes) if len(self.counts) else None
        covariance = self.spread / (self.samples - 1)
        return Features(self.network, self.resize, self.samples, self.mean.clone(), covariance, self.kept, classes)


def check_comparable(one: Features, two: Features) -> None:
    for what, here, there in (("networks", one.network, two.network), ("resizings", one.resize, two.resize)):
        if here != there:
            raise InputError(
                f"features of different {what} cannot be compared",
                got=f"{here} and {there}",
                fix="measure both sets of images in the same way",
            )


def fid_between(one: Features, two: Features) -> float:
    """Fréchet distance of two normal distributions with the moments of the features."""
    check_comparable(one, two)
    return frechet(one.mean, one.covariance, two.mean, two.covariance)


def frechet(mean: Tensor, covariance: Tensor, other_mean: Tensor, other_covariance: Tensor) -> float:
    """Tr (S1 S2)^{1/2} = Tr (S1^{1/2} S2 S1^{1/2})^{1/2}, whose eigenvalues are the singular values of R1^T R2 with
    S = R R^T. They are never negative or complex, and those that should be 0 are, so FID(X, X) = 0 also where there are
    fewer images than features; the square root of an eigenvalue of 1e-16 would be 1e-8.

    (d,), (d, d), (d,), (d, d)"""
    shared = torch.linalg.svdvals(rooted(covariance).mT @ rooted(other_covariance)).sum()
    apart = (mean - other_mean).double().square().sum()
    return max(float(apart + covariance.trace() + other_covariance.trace() - 2 * shared), 0.0)


def rooted(covariance: Tensor) -> Tensor:
    """R of S = R R^T, without the directions in which nothing varies.  (d, d) -> (d, r)"""
    values, vectors = torch.linalg.eigh(covariance.double())
    real = values > values[-1] * len(values) * torch.finfo(values.dtype).eps
    return vectors[:, real] * values[real].sqrt()


def kid_between(one: Features, two: Features) -> float:
    """Unbiased estimate of the squared MMD; so it may be slightly below 0. Of at most KEPT images of each set."""
    check_comparable(one, two)
    if one.kept is None or two.kept is None:
        raise InputError("KID needs features of single images, and only their moments are here")
    x, y = one.kept.double(), two.kept.double()
    if min(len(x), len(y)) < 2:
        raise InputError("KID needs at least 2 images of each set", got=f"{len(x)} and {len(y)}")
    return float(own_kernel(x) + own_kernel(y) - 2 * kernel(x, y).mean())


def own_kernel(x: Tensor) -> Tensor:
    """Mean over all pairs of two different images."""
    values = kernel(x, x)
    return (values.sum() - values.trace()) / (len(x) * (len(x) - 1))


def kernel(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y.mT / x.shape[1] + 1) ** 3


@dataclass(frozen=True)
class InceptionScore:
    """Mean and standard deviation over the splits; and that of all images at once, which is a little higher, as fewer
    images show fewer classes."""

    mean: float
    deviation: float
    whole: float


def inception_score(features: Features) -> InceptionScore:
    """From 1, for images that all look the same to the classifier, to the number of its classes."""
    sums = features.classes
    if sums is None:
        raise InputError(
            "the Inception Score needs a network with a classifier",
            got=features.network,
            fix="measure with an image classifier",
        )
    filled = sums.counts > 0
    parts = score_of(sums.counts[filled], sums.certainty[filled], sums.classes[filled])
    whole = score_of(sums.counts.sum(), sums.certainty.sum(), sums.classes.sum(dim=0))
    return InceptionScore(float(parts.mean()), float(parts.std(correction=0)), float(whole))


def score_of(count: Tensor, certainty: Tensor, classes: Tensor) -> Tensor:
    """E_x sum_y p(y|x) log p(y|x) - sum_y p(y) log p(y), and its exponential.  (...), (...), (..., c) -> (...)"""
    marginal = classes / count[..., None]
    return (certainty / count - torch.special.xlogy(marginal, marginal).sum(dim=-1)).exp()


def fid_notes(several: Sequence[Features]) -> list[str]:
    """What is to be known of a FID of so many images."""
    samples, width = [one.samples for one in several], len(several[0].mean)
    told = []
    if min(samples) < USUAL:
        told.append(
            f"FID is too large for few images: with {min(samples):,} compare it only with a FID of as many "
            f"(published ones use {USUAL:,} to 50,000)"
        )
    if min(samples) <= width:
        told.append(
            f"{min(samples):,} images do not determine a covariance of {width:,} features (it is singular): "
            f"use more than {width:,}; KID has no such bias"
        )
    if len(set(samples)) > 1:
        told.append(f"the two sets have different numbers of images, {samples[0]:,} and {samples[1]:,}")
    return told
