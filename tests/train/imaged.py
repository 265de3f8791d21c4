"""Runs on images, small ones."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

TRAIN = "[train]\nsteps = 4\nlog = 1\nevaluate = 4\nsave = 2\nthreads = 1\n"


VIT = '[model]\nname = "vit-cifar"\nimage = 8\npatch = 4\ndim = 16\ndepth = 1\nheads = 2\nhidden = 32\n'


CNN = '[model]\nname = "cnn-small"\ndepths = [1]\ndims = [8]\nwidth = 8\n'


WORDS = "[data.augment]\narea = 0.3\nmirror = 0.5\nways = 2\nerasing = 0.5\nmixup = 0.8\ncutmix = 1.0\n"


COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}


def sheet(folder: Path, count: int = 30, side: int = 8, name: str = "train") -> None:
    """Tiles of three colours, five in a row."""
    numbers = np.random.default_rng(0)
    targets = np.arange(count) % 3
    colours = np.array(list(COLOURS.values()))[targets]
    tiles = np.clip(colours[:, None, None] + numbers.integers(-25, 25, (count, side, side, 3)), 0, 255)
    pixels = tiles.reshape(count // 5, 5, side, side, 3).swapaxes(1, 2).reshape(count // 5 * side, 5 * side, 3)
    Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{name}.png")
    np.save(folder / f"{name}_labels.npy", targets.astype(np.uint8))


def run_file(model: str = VIT, *, task: str = "", data: str = "", augment: str = "") -> str:
    names = json.dumps(list(COLOURS))
    source = f'kind = "images"\ntrain = "train.png"\ntile = 8\nlabels = {names}\nbatch = 6\nshare = 0.2\n{data}'
    return f'[task]\nkind = "classify"\n{task}[data]\n{source}{augment}{model}{TRAIN}'
