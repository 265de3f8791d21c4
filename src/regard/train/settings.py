"""How a run is trained: one table of the run file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse

from .runfile import setting


@dataclass(frozen=True)
class Train:
    steps: int = setting(1000, "number of training steps (optimizer updates)")
    epochs: float | None = setting(None, "number of epochs; replaces steps if given")
    split: int = setting(
        1, "gradient accumulation: number of pieces per batch in each process; the gradient stays the same"
    )
    clip: float | None = setting(1.0, "gradient clipping: maximum global norm")
    log: int = setting(10, "logging interval in steps (training loss)")
    evaluate: int = setting(100, "evaluation interval in steps (held-out split)")
    save: int = setting(100, "checkpoint interval in steps")
    keep: int = setting(2, "number of latest checkpoints to keep, in addition to the best one")
    patience: int | None = setting(None, "early stopping patience: evaluations without improvement")
    moving: float | None = setting(
        None, "EMA decay, e.g. 0.999: keep an exponential moving average of the weights and evaluate it"
    )
    average: int = setting(1, "checkpoint averaging: number of last checkpoints to average for the final model")
    stored: Literal["float32", "float16"] = setting(
        "float32", "storage precision of the final model; float16 halves the file size and is read as float32"
    )
    precision: Literal["float32", "bfloat16"] = setting(
        "float32", "compute precision; bfloat16 is mixed precision and requires hardware support"
    )
    recompute: bool = setting(
        False, "gradient checkpointing: recompute activations in the backward pass instead of storing them"
    )
    compiled: bool = setting(False, "compile the model with torch.compile")
    distribution: Literal["ddp", "fsdp", "experts"] = setting(
        "ddp", "parallelism under torchrun: data parallel, fully sharded, or expert parallel"
    )
    device: Literal["cpu", "cuda"] = setting("cpu", "compute device")
    threads: int = setting(0, "CPU threads per process; 0 for OMP_NUM_THREADS or the number of cores")
    workers: int = setting(0, "data loader workers (background processes)")
    rates: Mapping[str, Any] = setting(
        {}, 'learning rate multipliers by weight name pattern, such as "backbone.*" = 0.1'
    )

    def __post_init__(self) -> None:
        refuse(
            [
                f"rates: {pattern} = {share!r} must be a number >= 0"
                for pattern, share in (self.rates or {}).items()
                if type(share) not in (int, float) or not share >= 0
            ],
            not_above_zero(self, "epochs"),
            not_positive(self, "steps", "split", "log", "evaluate", "save", "keep", "patience", "average"),
            not_above_zero(self, "clip"),
            not_shares(self, "moving"),
            not_at_least(0, self, "threads", "workers"),
        )
