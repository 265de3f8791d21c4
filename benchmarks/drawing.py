"""Images drawn from a text, against diffusers' pipeline with the same weights, the same noise and the same steps.

python -m benchmarks draw-small draw-wide
python -m benchmarks.drawing [--size small]: the memory that one image takes, each contender in a process of its own
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import regard
from regard.modalities.drawing.drawer import DrawnImage
from regard.modalities.drawing.settings import Drawing
from regard.model import Model
from regard.sample.noise import ImageNoise
from tests.guard import mend_torchvision

from .measure import Result, compare
from .reversible import status

STEPS, GUIDANCE, PROMPT = 10, 7.5, "the cat sees a dog"
SIZES = {"small": 64, "wide": 128}  # channels of the first level of the U-Net; latents of 32 x 32, images of 128 x 128
LENGTH = 77


@dataclass(frozen=True)
class Pair:
    """One pipeline, twice, with the same weights."""

    theirs: Any
    ours: Model
    noise: Tensor

    def there(self) -> Tensor:
        asked = {"num_inference_steps": STEPS, "guidance_scale": GUIDANCE, "latents": self.noise}
        found: Tensor = self.theirs(PROMPT, output_type="pt", **asked).images
        return found

    def here(self, model: Model | None = None) -> DrawnImage:
        (drawn,) = (model or self.ours).draw(PROMPT, how=self.how())
        return drawn

    def how(self) -> Drawing:
        told = self.ours.config.told_sampling
        return Drawing(n=1, denoising=replace(told, steps=STEPS, guidance=GUIDANCE, reference=True))


def made(dim: int) -> Any:
    """By diffusers."""
    mend_torchvision()
    import diffusers
    import transformers

    from tests.parity.test_clip import VOCAB, words

    diffusers.utils.logging.disable_progress_bar()
    levels = {"block_out_channels": (dim, 2 * dim, 4 * dim), "layers_per_block": 2}
    text = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4}
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = transformers.CLIPTokenizer.from_pretrained(words(Path(folder)), model_max_length=LENGTH)
    pipe = diffusers.StableDiffusionPipeline(
        vae=diffusers.AutoencoderKL(
            **levels,
            down_block_types=("DownEncoderBlock2D",) * 3,
            up_block_types=("UpDecoderBlock2D",) * 3,
        ).eval(),
        text_encoder=transformers.CLIPTextModel(
            transformers.CLIPTextConfig(
                **text, vocab_size=VOCAB, max_position_embeddings=LENGTH, eos_token_id=2, bos_token_id=0
            )
        ).eval(),
        tokenizer=tokenizer,
        unet=diffusers.UNet2DConditionModel(
            **levels,
            sample_size=32,
            cross_attention_dim=256,
            attention_head_dim=8,
            down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        ).eval(),
        scheduler=diffusers.DPMSolverMultistepScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1
        ),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def pair(dim: int) -> Pair:
    theirs = made(dim)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours = regard.load(Path(folder))
    return Pair(theirs, ours, ImageNoise(0, [0], ours.config.shape).start())


def draw(size: str, rounds: int, threads: int) -> Result:
    """One image, from its text to its pixels."""
    found = pair(SIZES[size])
    fast = regard.prepare(found.ours)
    expected = (found.there()[0] * 255).round()
    for model in (found.ours, fast):
        assert (found.here(model).pixels - expected).abs().max() <= 2, "they draw different images"
    contenders: dict[str, Callable[[], object]] = {
        "diffusers": found.there,
        "regard": found.here,
        "regard, prepared": lambda: found.here(fast),
    }
    load, times = os.getloadavg()[0], {name: list[float]() for name in contenders}
    for turn in range(rounds):
        for name in list(contenders) if turn % 2 == 0 else list(reversed(contenders)):
            start = time.process_time()  # of the processor: an image takes seconds, in which others work too
            contenders[name]()
            times[name].append((time.process_time() - start) / STEPS)
    what = f"a step of an image of 128 x 128, with guidance, U-Net from {SIZES[size]} channels, time of the processor"
    return compare(what, times, load=load, threads=threads)


def work(kind: str, size: str) -> None:
    """What a process does: one image, and the memory above what it held before."""
    torch.set_num_threads(1)
    found = pair(SIZES[size])
    ours = regard.prepare(found.ours) if kind == "prepared" else found.ours
    for x in (*found.theirs.unet.parameters(), *found.theirs.vae.parameters(), *ours.net.parameters()):
        x.sum()  # read from the file, where that was not done yet
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
    _ = found.there() if kind == "diffusers" else found.here(ours)
    print(json.dumps({"megabytes": status("VmHWM") - before}))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drawing", description="Memory of drawing one image.")
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--work", choices=["diffusers", "regard", "prepared"])
    chosen = parser.parse_args()
    if chosen.work:
        work(chosen.work, chosen.size)
        return
    for kind in ("diffusers", "regard", "prepared"):
        command = [sys.executable, "-m", "benchmarks.drawing", "--work", kind, "--size", chosen.size]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        print(f"{kind:<10} {json.loads(run.stdout.splitlines()[-1])['megabytes']:8.1f} MB", flush=True)


ALL: dict[str, Callable[[int, int], Result]] = {f"draw-{size}": partial(draw, size) for size in SIZES}

if __name__ == "__main__":
    main()
