"""Whether images come as fast as a net learns from them: python -m benchmarks.images [--images 256] [--steps 8]

Files of JPEG are decoded, cut, changed and mixed by DeiT's recipe, by this process or by one or two of its workers. The
first rows are of that alone. In the others a ViT-tiny learns from what comes, and they tell the share of the time in
which it waits for images. Each row is a process of its own; on a busy machine compare only rows of one run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIDE, BATCH = 320, 16
WORKERS = (0, 1, 2)
WARM = 2  # steps that do not count: workers are born, memory is asked for


def write(folder: Path, count: int) -> None:
    """Photographs that code makes up: coarse noise, smoothed, so that they are packed as real ones are."""
    numbers = np.random.default_rng(0)
    for i in range(count):
        path = folder / f"kind-{i % 2}" / f"{i}.jpg"
        path.parent.mkdir(exist_ok=True)
        coarse = Image.fromarray(numbers.integers(0, 256, (40, 40, 3), np.uint8))
        coarse.resize((SIDE, SIDE * 3 // 4), Image.Resampling.BICUBIC).save(path, "JPEG", quality=90)


def measure(folder: Path, workers: int, steps: int, *, learn: bool) -> dict[str, float]:
    """Images of a second, and of a net that learns from them, the share of time without any."""
    import torch
    import torch.nn.functional as F

    import regard
    from regard.data.loader import Loader
    from regard.modalities.images.augmentation import Augment, augmented
    from regard.modalities.images.processor import Images, open_images

    recipe = Augment(area=0.08, mirror=0.5, ways=2, erasing=0.25, mixup=0.8, cutmix=1.0)
    rows = open_images(folder, Images(size=None))
    data = augmented(rows, Images(size=224), recipe, batch=BATCH, classes=len(rows.labels), seed=0)
    net = regard.build("vit-tiny", classes=len(rows.labels)).net.train() if learn else None
    optimizer = None if net is None else torch.optim.AdamW(net.parameters(), 1e-4)
    loading = iter(Loader(data, range(WARM + steps), workers=workers))
    waited, began = 0.0, 0.0
    for step in range(WARM + steps):
        if step == WARM:
            waited, began = 0.0, time.perf_counter()
        asked = time.perf_counter()
        _, (piece,) = next(loading)
        waited += time.perf_counter() - asked
        if net is not None and optimizer is not None:
            F.cross_entropy(net(piece.batch.inputs), piece.batch.labels).backward()
            optimizer.step()
            optimizer.zero_grad()
    took = time.perf_counter() - began
    return {"images/s": BATCH * steps / took, "waiting": waited / took}


def asked(folder: Path, workers: int, steps: int, learn: bool) -> dict[str, float]:
    """The same in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.images", "--steps", str(steps)]
    words += ["--measure", str(folder), str(workers), str(int(learn))]
    found: dict[str, float] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.images", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=256, help="files to read")
    parser.add_argument("--steps", type=int, default=8, help=f"batches of {BATCH}, of each row")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", nargs=3, metavar=("FOLDER", "WORKERS", "LEARN"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        folder, workers, learn = chosen.measure
        print(json.dumps(measure(Path(folder), int(workers), chosen.steps, learn=learn == "1")))
        return
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), chosen.images)
        load = os.getloadavg()[0]
        for learn in (False, True):
            for workers in WORKERS:
                found = asked(Path(folder), workers, chosen.steps, learn)
                results.append({"learn": learn, "workers": workers, **found})
                if not chosen.json:
                    waiting = f"   waits for {found['waiting']:.1%} of the time" if learn else ""
                    what = "ViT-tiny learns" if learn else "images alone"
                    print(f"{what:<16} {workers} workers  {found['images/s']:8.1f} images/s{waiting}", flush=True)
    if chosen.json:
        print(json.dumps({"load": load, "cores": os.cpu_count(), "rows": results}, indent=2))


if __name__ == "__main__":
    main()
