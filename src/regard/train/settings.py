"""How a run is trained: one table of the run file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse

from .runfile import setting


@dataclass(frozen=True)
class Train:
    steps: int = setting(1000, "training steps: how many updates")
    epochs: float | None = setting(None, "passes through the training data; given, they replace steps")
    split: int = setting(
        1, "gradient accumulation: pieces that a batch is cut into in each process; the gradient stays the same"
    )
    clip: float | None = setting(1.0, "gradient clipping: the largest norm of all gradients together")
    log: int = setting(10, "write the training loss every so many steps")
    evaluate: int = setting(100, "measure on held-out data every so many steps")
    save: int = setting(100, "write a checkpoint every so many steps")
    keep: int = setting(2, "how many of the last checkpoints stay; the best one stays too")
    patience: int | None = setting(None, "early stopping: after so many evaluations without a better one")
    moving: float | None = setting(
        None, "EMA: keep an exponential moving average of the weights, e.g. 0.999, and evaluate that"
    )
    average: int = setting(1, "checkpoint averaging: the final model is the mean of so many last checkpoints")
    stored: Literal["float32", "float16"] = setting(
        "float32", "float16: the file of the final model is half as large; it is read as float32"
    )
    precision: Literal["float32", "bfloat16"] = setting("float32", "mixed precision: bfloat16, if the hardware can")
    recompute: bool = setting(
        False, "gradient checkpointing: compute activations again in the backward pass instead of keeping them"
    )
    compiled: bool = setting(False, "let torch.compile make one program of the model")
    distribution: Literal["ddp", "fsdp", "experts"] = setting(
        "ddp", "under torchrun: each process has the model, or its share, or its share of the experts"
    )
    device: Literal["cpu", "cuda"] = setting("cpu", "where to compute")
    threads: int = setting(0, "threads a process computes with; 0 for OMP_NUM_THREADS, or as many as there are cores")
    workers: int = setting(0, "data loader workers: background processes that make batches")
    rates: Mapping[str, Any] = setting({}, 'of some weights, by their names, as shares of the rate: "backbone.*" = 0.1')

    def __post_init__(self) -> None:
        refuse(
            [
                f"rates: {pattern} = {share!r} is no number from 0 on"
                for pattern, share in (self.rates or {}).items()
                if type(share) not in (int, float) or not share >= 0
            ],
            not_above_zero(self, "epochs"),
            not_positive(self, "steps", "split", "log", "evaluate", "save", "keep", "patience", "average"),
            not_above_zero(self, "clip"),
            not_shares(self, "moving"),
            not_at_least(0, self, "threads", "workers"),
        )
