"""One process of a test that needs several: python -m tests.train.worker WHAT FOLDER, under torchrun.

It writes what it found into the folder, for the test to compare.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from regard.data.loader import Maker
from regard.tasks.language import Language
from regard.train.distribution import World, joined
from tests.train.toys import Counting, engine, tiny_gpt


def whole(x: torch.Tensor) -> torch.Tensor:
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().clone().contiguous()


def curve(folder: Path, world: World, kind: str) -> None:
    """Fifty steps."""
    trained = engine(folder / "run", world=world, distribution=kind, steps=50, log=1, evaluate=25, save=25, keep=9)
    trained.run()
    weights = {name: whole(x) for name, x in trained.task.parts["net"].state_dict().items()}
    if world.first:
        save_file(weights, folder / "weights.safetensors")


def resume(folder: Path, world: World, kind: str) -> None:
    """What a checkpoint gives on this many processes, and that training goes on from it."""
    trained = engine(folder / "run", world=world, distribution=kind, steps=60, log=1, evaluate=25, save=25, keep=9)
    step = trained.resume()
    weights = {name: whole(x) for name, x in trained.task.parts["net"].state_dict().items()}
    state = trained.optimizers["net"].state
    named = dict(trained.task.parts["net"].named_parameters())
    moments = {f"moment.{name}": whole(state[x]["exp_avg"]) for name, x in named.items()}
    update = trained.update(step, Maker(trained.data, world.rank, world.size, 1, 0).pieces(step))
    if world.first:
        save_file(weights | moments, folder / f"resumed-{world.size}.safetensors")
        (folder / f"resumed-{world.size}.json").write_text(json.dumps({"step": step, **update.sums, **update.norms}))


def gradient(folder: Path, world: World, kind: str) -> None:
    """Of one ragged batch, in float64."""
    task = Language(tiny_gpt().double(), None)  # type: ignore[arg-type]
    trained = engine(folder / "run", task, Counting(budget=90), world=world, distribution=kind)
    found: dict[str, torch.Tensor] = {}
    original = trained.clip

    def keep(parameters: list[torch.Tensor], norm: torch.Tensor) -> None:
        found.update({name: whole(x.grad) for name, x in task.net.named_parameters() if x.grad is not None})
        original(parameters, norm)

    trained.clip = keep  # type: ignore[method-assign]
    trained.update(2, Maker(trained.data, world.rank, world.size, 2, 0).pieces(2))
    if world.first:
        save_file(found, folder / f"gradient-{kind}-{world.size}.safetensors")


def main() -> None:
    what, folder, kind = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    with joined() as world:
        {"curve": curve, "resume": resume, "gradient": gradient}[what](folder, world, kind)


if __name__ == "__main__":
    main()
