"""Stable Diffusion 1 and 2 <-> diffusers: a pipeline is a folder of folders, here it is one model.

``unet/``, ``vae/`` and ``text_encoder/`` are read by the tables of their kinds, each behind a prefix; ``scheduler/``
tells the noise that the model was trained with, and how its folder would draw, which the key ``sampling`` keeps.

What is not kept: the safety checker and its feature extractor, which draw nothing; the ``sample_size`` of the
autoencoder, beyond which diffusers may cut an image into tiles; ``requires_safety_checker``.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.errors import InputError
from regard.models.autoencoder import Config as AutoencoderConfig
from regard.models.cliptext import Config as TextConfig
from regard.models.diffusion import DERIVED, Config, keys_of
from regard.models.unet import Config as UNetConfig
from regard.sample.settings import Denoising

from . import autoencoder_kl, cliptext, unet
from .diffusers_config import CLASS
from .foreign import ForeignConfig
from .formats import as_it_is
from .prefixes import prefixed
from .rules import Entry
from .schedulers import SOLVERS, VERSION, ForeignScheduler, export_scheduler

FAMILY = "diffusion"
INDEX, LORA = "model_index.json", "pytorch_lora_weights.safetensors"
TEXT_TO_IMAGE, INPAINTING = "StableDiffusionPipeline", "StableDiffusionInpaintPipeline"
PIPELINES = (TEXT_TO_IMAGE, "StableDiffusionImg2ImgPipeline", INPAINTING)
MENDED = 64  # the sample_size that diffusers takes for a smaller one of a U-Net that was saved before its version 0.9


@dataclass(frozen=True)
class PartTable:
    """A part of a pipeline: its subfolder, the prefix of its tensors here, its file of weights, and its kind."""

    folder: str
    ours: str
    weights: str
    kind: str
    config: Callable[[ForeignConfig], Any]
    complete: Callable[[Any, Collection[str]], Any]
    rules: Callable[[Any, Collection[str] | None], list[Entry]]
    export_config: Callable[[Any], dict[str, Any]]


WEIGHTS = "diffusion_pytorch_model"
PARTS = tuple(
    PartTable(folder, ours, weights, table.KIND, table.config, complete, table.rules, table.export_config)
    for folder, ours, weights, table, complete in (
        ("text_encoder", "text.", "model", cliptext, cliptext.complete),
        ("unet", "denoiser.", WEIGHTS, unet, as_it_is),
        ("vae", "autoencoder.", WEIGHTS, autoencoder_kl, as_it_is),
    )
)
CLASSES = {  # that may stand in an index
    "text_encoder": ("CLIPTextModel",),
    "unet": (unet.KIND,),
    "vae": (autoencoder_kl.KIND,),
    "scheduler": tuple(SOLVERS),
    "tokenizer": ("CLIPTokenizer", "CLIPTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"),
}
ENDS = ("ending", "end")
UNREAD = ("safety_checker", "feature_extractor")  # they look at what was drawn
INSTEAD = (  # of pipelines that cannot be read, by what their names have
    ("XL", "use a folder of Stable Diffusion 1 or 2: this one has two text encoders"),
    ("ControlNet", "open the folder of the plain pipeline, whose parts are the same, without the control network"),
    ("Diffusion3", "use a folder of Stable Diffusion 1 or 2: this one has no U-Net"),
    ("Flux", "use a folder of Stable Diffusion 1 or 2: this one has no U-Net"),
)
FUSE = "in diffusers, load the pipeline and the LoRA, call fuse_lora(), unload_lora_weights() and save_pretrained(DIR)"


def index_problems(data: Mapping[str, Any]) -> list[str]:
    """What is wrong with the parts that an index names; every key is read."""
    problems = []
    for key, value in data.items():
        if key == "image_encoder" and value not in (None, [None, None]):
            problems.append(f"image_encoder = {value!r}"[:100] + " is not supported: prompts are texts alone")
        elif not key.startswith("_") and key not in (*CLASSES, *UNREAD, "image_encoder", "requires_safety_checker"):
            problems.append(f"unknown key {key[:60]!r} = {value!r}"[:160])
    for key, known in CLASSES.items():
        told = data.get(key)
        kind = told[1] if isinstance(told, list) and len(told) == 2 else None
        if key not in data:
            problems.append(f"{key} is missing")
        elif kind not in known:
            problems.append(f"{key} = {told!r}"[:100] + f" is not supported, expected {' or '.join(known)}")
    return problems


def instead_of(kind: str) -> str:
    """What to do with a pipeline of another kind."""
    return next((fix for part, fix in INSTEAD if part in kind), "")


def scheduler_data(data: Mapping[str, Any], index: Mapping[str, Any]) -> dict[str, Any]:
    """As their pipelines understand it: the class is that of the index, samples are never clipped, "leading" begins one
    time step later, and to draw a part anew PNDM leaves its Runge-Kutta steps out."""
    kind = index["scheduler"][1]
    found = {**data, CLASS: kind, "steps_offset": 1}
    if kind in ("DDIMScheduler", "DDPMScheduler"):
        found["clip_sample"] = False
    if kind == "PNDMScheduler" and index.get(CLASS) == INPAINTING:
        found["skip_prk_steps"] = True
    return found


def unet_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Older files may tell a size that no published model has; their pipelines take another."""
    size = data.get("sample_size")
    old = before_0_9(data.get("_diffusers_version")) and type(size) is int and size < MENDED
    return {**data, "sample_size": MENDED} if old else {**data}


def before_0_9(version: Any) -> bool:
    if not isinstance(version, str):
        return False
    numbers = [int(x) for x in version.split(".")[:2] if x.isdecimal()]
    return len(numbers) == 2 and numbers < [0, 9]


def whole_config(
    text: TextConfig, denoiser: UNetConfig, autoencoder: AutoencoderConfig, scheduler: ForeignScheduler
) -> tuple[Config | None, list[str]]:
    """One config of the parts', or what does not go together of them."""
    kinds = {autoencoder.latent: "noise", 2 * autoencoder.latent + 1: "noise+known"}
    schedule, problems = scheduler.schedule, []
    if denoiser.image is None:
        problems.append("unet: sample_size is missing, which tells the size of images")
    if denoiser.context != text.dim:
        problems.append(f"unet: cross_attention_dim = {denoiser.context}, but the text encoder's is {text.dim}")
    if denoiser.out != autoencoder.latent:
        problems.append(f"unet: out_channels = {denoiser.out}, but the autoencoder's latents have {autoencoder.latent}")
    if denoiser.channels not in kinds:
        expected = " or ".join(f"{count} ({what})" for count, what in kinds.items())
        problems.append(f"unet: in_channels = {denoiser.channels} is not supported, expected {expected}")
    if autoencoder.shift:
        problems.append(f"vae: shift_factor = {autoencoder.shift}, which these pipelines pass over")
    if problems or denoiser.image is None:
        return None, problems
    parts: dict[str, Any] = {
        "text": keys_of(text, without=DERIVED["text"]),
        "denoiser": keys_of(denoiser, "unet", DERIVED["denoiser"]),
        "autoencoder": keys_of(autoencoder, without=DERIVED["autoencoder"]) | {"latent": autoencoder.latent},
    }
    told: dict[str, Any] = {
        "prediction": scheduler.prediction,
        "schedule": schedule.kind,
        "times": schedule.steps,
        "first": schedule.first,
        "last": schedule.last,
        "terminal": schedule.terminal,
        "given": kinds[denoiser.channels],
        "padding": "read",
        "sampling": keys_of(without_steps(scheduler.settings)) or None,
    }
    image = denoiser.image * autoencoder.factor
    return Config(image=image, channels=autoencoder.channels, vocab=text.vocab, length=text.length, **parts, **told), []


def without_steps(settings: Denoising) -> Denoising:
    """What a folder tells: no number of steps, and no offset where there is nothing to add it to."""
    usual = Denoising()
    offset = settings.offset if settings.spacing == "leading" else usual.offset
    return replace(settings, steps=usual.steps, offset=offset)


def part_configs(config: Config) -> dict[str, Any]:
    """The parts' own, by their subfolders."""
    refuse_other_parts(config)
    text = config.text_config
    if text.ending == "first" and text.end in (None, cliptext.OLD_END):  # which no file can say, and nothing here reads
        text = replace(text, ending="highest", end=None)
    return {
        "text_encoder": text,
        "unet": config.denoiser_config,
        "vae": config.autoencoder_config,
    }


def refuse_other_parts(config: Config) -> None:
    if not isinstance(config.denoiser_config, UNetConfig) or config.autoencoder_config is None:
        kind = (config.denoiser or {}).get("kind")
        raise InputError(
            "this model cannot be exported as a pipeline of Stable Diffusion",
            got=f"denoiser.kind = {kind!r}, " + ("without" if config.autoencoder_config is None else "with")
            + " an autoencoder",
            expected="denoiser.kind = 'unet', with an autoencoder",
            fix="keep it in regard's own format, with regard.save",
        )  # fmt: skip


def exported_index(config: Config, tokenizer: str) -> dict[str, Any]:
    scheduler = scheduler_config(config)[CLASS]
    return {
        CLASS: TEXT_TO_IMAGE if config.given == "noise" else INPAINTING,
        "_diffusers_version": VERSION,
        "feature_extractor": [None, None],
        "image_encoder": [None, None],
        "requires_safety_checker": False,
        "safety_checker": [None, None],
        "scheduler": ["diffusers", scheduler],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "tokenizer": ["transformers", tokenizer],
        "unet": ["diffusers", unet.KIND],
        "vae": ["diffusers", autoencoder_kl.KIND],
    }


def scheduler_config(config: Config) -> dict[str, Any]:
    """With the offset that their pipelines take in any case, also where it is not added to anything."""
    told = config.told_sampling
    offset = told.offset if told.spacing == "leading" else 1
    return export_scheduler(config.noise_schedule, config.prediction, replace(told, offset=offset))


def whole_rules(configs: Mapping[str, Any], names: Mapping[str, Mapping[str, Any]] | None = None) -> list[Entry]:
    """Of all parts, with the subfolder before each of their names; ``names`` are the tensors in each subfolder."""
    return [
        entry
        for part in PARTS
        for entry in prefixed(
            part.rules(configs[part.folder], None if names is None else names[part.folder]),
            f"{part.folder}.",
            part.ours,
        )
    ]


def lost_keys(ours: Config, back: Config) -> dict[str, tuple[Any, Any]]:
    """What an export would change. Where a text ends is nothing to a model that looks at all of its words."""
    one, other = ({**vars(x), "text": {k: v for k, v in (x.text or {}).items() if k not in ENDS}} for x in (ours, back))
    return {key: (x, other[key]) for key, x in one.items() if x != other[key]}
