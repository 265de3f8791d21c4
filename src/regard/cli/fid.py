"""`regard fid`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.compare import Ticker
from regard.cli.options import Json

if TYPE_CHECKING:
    from regard.modalities.drawing.feature_networks import FeatureNetwork
    from regard.modalities.drawing.image_batches import ImageSource, Report, Sizes
    from regard.modalities.drawing.scores import Features


def run(
    first: Annotated[
        Path, typer.Argument(metavar="A", help="Images: a folder, a .zip archive, an idx file, or a sheet (--tile).")
    ],
    second: Annotated[Path, typer.Argument(metavar="B", help="Images to compare them with, in any of these forms.")],
    features: Annotated[
        str,
        typer.Option(help="Feature network: inception, for published FID, or an image classifier (run, folder, name)."),
    ] = "inception",
    weights: Annotated[
        Path | None, typer.Option(help="Weights of inception; found below REGARD_DATA if omitted.")
    ] = None,
    resize: Annotated[
        str, typer.Option(help="Resizing for inception: bilinear (pytorch-fid), tensorflow, or bicubic (clean-fid).")
    ] = "bilinear",
    samples: Annotated[int, typer.Option(help="Number of images of each, drawn at random; 0: all.")] = 0,
    batch: Annotated[int, typer.Option(help="Number of images that the network sees at once.")] = 32,
    tile: Annotated[int, typer.Option(help="Side of a tile in pixels, where A or B is a sheet of tiles.")] = 0,
    as_json: Json = False,
) -> None:
    """Compare two sets of images by the features that a network sees in them: FID, KID and Inception Score.

    Example: regard fid drawn/ photographs.zip --samples 10000

    Example: regard fid drawn/ mnist/t10k-images-idx3-ubyte.gz --features runs/mnist
    """
    from regard.cli.memory import tune

    tune()  # before torch is loaded
    from regard.errors import InputError
    from regard.modalities.drawing.image_batches import Sizes, measure, open_source, picked, source_batches

    for name, value, least in (("batch", batch, 1), ("samples", samples, 0), ("tile", tile, 0)):
        if value < least:
            raise InputError(f"--{name} must be at least {least}", got=f"--{name} {value}")
    sources = [open_source(path, tile if is_sheet(path) else 0) for path in (first, second)]
    counts = [len(picked(source, samples)) for source in sources]
    for source, count in zip(sources, counts, strict=True):
        if count < 2:
            raise InputError("a covariance needs at least 2 images", where=source.name, got=str(count))
    network = feature_network(features, weights, resize)
    ticker, found, sizes = Ticker(), list["Features"](), [Sizes(), Sizes()]
    try:
        for letter, source, count, tally in zip("AB", sources, counts, sizes, strict=True):
            batches = tally.watch(source_batches(source, batch, samples))
            later = sum(counts[len(found) + 1 :])
            found.append(measure(network, batches, progress(ticker, letter, count, later)))
        ticker("computing the distance", None)
        told = compared(network, sources, found, sizes)
    finally:
        ticker.close()
    print(json.dumps(told, indent=2, allow_nan=False) if as_json else "\n".join(lines(told)))


def progress(ticker: Ticker, letter: str, count: int, later: int) -> "Report":
    """Tells the time left for the rest of these images and those of the other set, which come ``later``."""

    def report(done: int, seconds: float) -> None:
        ticker(f"{letter}: {done:,} of {count:,} images", seconds / done * (count - done + later))

    return report


def is_sheet(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() != ".zip" and "-ubyte" not in path.name


def feature_network(features: str, weights: Path | None, resize: str) -> "FeatureNetwork":
    from regard.errors import InputError
    from regard.modalities.drawing.feature_networks import (
        ClassifierFeatures,
        PublishedInception,
        find_inception_weights,
        load_inception,
    )

    if features == "inception":
        return PublishedInception(load_inception(find_inception_weights(weights)), resize)
    if weights is not None or resize != "bilinear":
        unused = "--weights" if weights is not None else "--resize"
        raise InputError(
            f"{unused} belongs to the network inception", got=f"--features {features}", fix=f"remove {unused}"
        )
    from regard.folders import load

    return ClassifierFeatures(load(features))


def compared(
    network: "FeatureNetwork", sources: Sequence["ImageSource"], found: Sequence["Features"], sizes: Sequence["Sizes"]
) -> dict[str, Any]:
    """The answer, as it is printed with --json."""
    from regard.modalities.drawing.scores import fid_between, fid_notes, inception_score, kid_between

    notes = fid_notes(found)
    for letter, tally in zip("AB", sizes, strict=True):
        notes += [f"{letter}: {note}" for note in tally.notes(network.channels)]
    sets: dict[str, Any] = {}
    for letter, source, one, tally in zip("ab", sources, found, sizes, strict=True):
        score = inception_score(one) if one.classes is not None else None
        sets[letter] = {
            "path": source.name,
            "of": source.count,
            "samples": one.samples,
            **tally.as_dict(),
            "inception_score": None if score is None else vars(score),
        }
    return {
        "fid": fid_between(*found),
        "kid": kid_between(*found),
        "kid_samples": [0 if one.kept is None else len(one.kept) for one in found],
        "network": network.name,
        "published": network.name.startswith("inception"),
        "features": len(found[0].mean),
        "resize": network.resize,
        "antialias": network.antialias,
        **sets,
        "notes": notes,
    }


def lines(told: dict[str, Any]) -> list[str]:
    """A FID of another network than the published one has another name, so that nobody compares the two."""
    mark = "" if told["published"] else "-c"
    kept = " and ".join(f"{count:,}" for count in told["kid_samples"])
    rows = [
        (f"FID{mark}", f"{told['fid']:.6g}"),
        (f"KID{mark}", f"{told['kid']:.6g} (unbiased, from {kept} images)"),
        ("network", f"{told['network']}, {told['features']:,} features"),
        ("resize", told["resize"]),
    ]
    for letter in "ab":
        one = told[letter]
        part = "" if one["samples"] == one["of"] else f" of {one['of']:,}, drawn at random"
        rows.append((letter.upper(), f"{one['samples']:,} images{part}: {one['path']}"))
    for letter in "ab":
        if (score := told[letter]["inception_score"]) is not None:
            text = f"{score['mean']:.4f} ± {score['deviation']:.4f} over 10 splits, {score['whole']:.4f} over all"
            rows.append((f"IS{mark} of {letter.upper()}", text))
    width = max(len(name) for name, _ in rows)
    return [*(f"{name:<{width}}  {value}" for name, value in rows), *(f"note: {note}" for note in told["notes"])]
