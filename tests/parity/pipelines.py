"""Tiny pipelines of Stable Diffusion, made with diffusers and drawn at random: what our models are compared with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.guard import mend_torchvision

mend_torchvision()
diffusers = pytest.importorskip("diffusers", reason="the reference is not installed: pip install regard[parity]")
transformers = pytest.importorskip("transformers", reason="the reference is not installed: pip install regard[parity]")
diffusers.utils.logging.set_verbosity_error()
diffusers.utils.logging.disable_progress_bar()
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

from tests.parity.references import redraw  # noqa: E402
from tests.parity.test_clip import VOCAB, words  # noqa: E402

LENGTH = 24
NOISE = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012, "steps_offset": 1}
NOISE |= {"clip_sample": False, "set_alpha_to_one": False, "skip_prk_steps": True}
TEXT = {"vocab_size": VOCAB, "max_position_embeddings": LENGTH, "hidden_size": 16, "intermediate_size": 24}
TEXT |= {"num_attention_heads": 4, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "projection_dim": 12}
DENOISER = {"sample_size": 8, "block_out_channels": (8, 16), "layers_per_block": 1, "cross_attention_dim": 16}
DENOISER |= {"down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "norm_num_groups": 4}
DENOISER |= {"up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"), "attention_head_dim": 2}
AUTOENCODER = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4, "sample_size": 16}
AUTOENCODER |= {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
# Of each generation: its text encoder, its U-Net, what fills its prompts up, and what it predicts.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "sd1": ({"num_hidden_layers": 2, "hidden_act": "quick_gelu"}, {}, "<|endoftext|>", "epsilon"),
    "sd2": (
        {"num_hidden_layers": 3, "hidden_act": "gelu"},
        {"attention_head_dim": (1, 2), "use_linear_projection": True, "upcast_attention": True},
        "!",
        "v_prediction",
    ),
}
CLASSES = {"ddim": "DDIM", "ddpm": "DDPM", "dpm": "DPMSolverMultistep", "plms": "PNDM", "euler": "EulerDiscrete"}


def scheduler(name: str, **keys: Any) -> Any:
    return getattr(diffusers, f"{CLASSES[name]}Scheduler").from_config(NOISE | keys)


def pipeline(folder: Path, kind: str = "sd1", sampler: str = "plms", task: str = "", **keys: Any) -> Any:
    """One of a generation, by its scheduler's keys; ``task`` is Img2Img or Inpaint."""
    text, denoiser, pad, predicted = KINDS[kind]
    channels = keys.pop("channels", 4)
    parts = {
        "text_encoder": transformers.CLIPTextModel(transformers.CLIPTextConfig(**TEXT, **text)),
        "unet": diffusers.UNet2DConditionModel(**DENOISER | denoiser | {"in_channels": channels}),
        "vae": diffusers.AutoencoderKL(**AUTOENCODER),
    }
    for seed, part in enumerate(parts.values()):
        redraw(part.eval(), seed, 0.1)
    tokenizer = transformers.CLIPTokenizer.from_pretrained(words(folder), model_max_length=LENGTH, pad_token=pad)
    found = getattr(diffusers, f"StableDiffusion{task}Pipeline")(
        **parts,
        tokenizer=tokenizer,
        scheduler=scheduler(sampler, prediction_type=predicted, **keys),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    found.set_progress_bar_config(disable=True)
    return found


def saved(pipe: Any, folder: Path) -> Path:
    pipe.save_pretrained(folder)
    return folder


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A file of JSON."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def states(pipe: Any, *given: Any, **keys: Any) -> tuple[list[Tensor], Any]:
    """After each step, where x = signal * sample + noise * noise; and the image."""
    seen: list[Tensor] = []

    def keep(_: Any, step: int, time: Any, values: dict[str, Tensor]) -> dict[str, Tensor]:
        x = values["latents"]
        if type(pipe.scheduler).__name__.startswith("Euler"):
            sigma = pipe.scheduler.sigmas[pipe.scheduler.step_index]
            x = x / (sigma**2 + 1) ** 0.5
        seen.append(x.clone())
        return {}

    image = pipe(*given, callback_on_step_end=keep, output_type="pil", **keys).images[0]
    return seen, image


def tensors(module: nn.Module) -> dict[str, Tensor]:
    return {name: x.detach() for name, x in module.state_dict().items()}


def same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs.to(ours), rtol=1e-4, atol=1e-5 * max(1.0, float(theirs.abs().max())))
