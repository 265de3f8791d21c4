"""Folders of Stable Diffusion: read strictly, with every problem named by its place; written so that diffusers draws
the same image from them."""

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.cli.app import main
from regard.errors import CheckpointError, InputError
from regard.modalities.drawing.prompt_drawer import PromptDrawer
from regard.modalities.drawing.settings import Drawing
from regard.sample.noise import ImageNoise
from tests.parity.pipelines import CLASSES, VOCAB, changed, diffusers, pipeline, saved, scheduler, states, words

WEIGHTS = {"unet": "diffusion_pytorch_model", "vae": "diffusion_pytorch_model", "text_encoder": "model"}
CONFIGS = [*(f"{part}/config.json" for part in WEIGHTS), "scheduler/scheduler_config.json"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    return saved(pipeline(folder / "words", "sd2", "ddim"), folder / "pipe")


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "pipe"))


def told(folder: Path) -> str:
    with pytest.raises(CheckpointError) as error:
        regard.load(folder)
    return str(error.value)


def state(model: Any) -> dict[str, torch.Tensor]:
    return dict(model.state_dict())


def equal(one: Any, other: Any) -> None:
    assert one.config == other.config
    assert state(one).keys() == state(other).keys()
    for name, x in state(one).items():
        assert torch.equal(x, state(other)[name]), name


# ------------------------------------------------------------------------------------------------------- what is read


def test_what_a_folder_tells(folder: Path) -> None:
    config = regard.load(folder).config
    assert (config.image, config.padding, config.filler, config.given) == (16, "read", 0, "noise")
    assert (config.prediction, config.schedule, config.first, config.last) == (
        "velocity",
        "scaled-linear",
        0.00085,
        0.012,
    )
    assert config.sampling == {"solver": "ddim", "spacing": "leading", "offset": 1, "final": "first"}
    assert config.text["activation"] == "gelu"
    assert config.denoiser["projection"] == "linear"
    assert config.denoiser["heads"] == [1, 2]


def test_the_first_generation_fills_up_with_the_end(tmp_path: Path) -> None:
    model = regard.load(saved(pipeline(tmp_path / "words", "sd1", "plms"), tmp_path / "pipe"))
    assert model.config.filler is None
    assert PromptDrawer(model.net, model.processor).tokens("the cat").ids[4:] == (VOCAB - 1,) * 20


def test_older_files_of_the_tokenizer(folder: Path) -> None:
    """As the published folders have them: vocabulary and merges, and the special tokens beside them."""
    before = PromptDrawer(*vars_of(regard.load(folder))).tokens("The CAT singing, 1234 don't! ö").ids
    shutil.rmtree(folder / "tokenizer")
    words(folder / "tokenizer")
    special = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "!"}
    (folder / "tokenizer" / "special_tokens_map.json").write_text(json.dumps(special))
    (folder / "tokenizer" / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 24}))
    assert PromptDrawer(*vars_of(regard.load(folder))).tokens("The CAT singing, 1234 don't! ö").ids == before


def vars_of(model: Any) -> tuple[Any, Any]:
    return model.net, model.processor


@pytest.mark.parametrize("offset", [0, 1])
def test_settings_that_their_pipelines_change(offset: int, tmp_path: Path) -> None:
    """Theirs begins "leading" one step later and never clips, whatever the folder says."""
    pipe = pipeline(tmp_path / "words", "sd1", "ddim")
    saved(pipe, tmp_path / "pipe")
    change = {"steps_offset": offset, "clip_sample": not offset}
    changed(tmp_path / "pipe" / "scheduler" / "scheduler_config.json", lambda data: data.update(change))
    model = regard.load(tmp_path / "pipe")
    theirs = diffusers.StableDiffusionPipeline.from_pretrained(tmp_path / "pipe", safety_checker=None)
    assert (theirs.scheduler.config.steps_offset, theirs.scheduler.config.clip_sample) == (1, False)
    assert (model.config.told_sampling.offset, model.config.told_sampling.clip) == (1, None)


def test_the_size_of_a_u_net_of_before_0_9(folder: Path) -> None:
    changed(folder / "unet" / "config.json", lambda data: data.update(_diffusers_version="0.6.0.dev0"))
    assert regard.load(folder).config.image == 128
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)
    assert pipe.unet.config.sample_size * pipe.vae_scale_factor == 128


def test_weights_in_shards_and_by_other_names(folder: Path) -> None:
    before = regard.load(folder)
    single = folder / "unet" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(single)
    single.rename(single.with_name("diffusion_pytorch_model.non_ema.safetensors"))
    halves = [dict(itertools.islice(tensors.items(), i, None, 2)) for i in (0, 1)]
    names = [f"diffusion_pytorch_model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for name, half in zip(names, halves, strict=True):
        save_file(half, folder / "unet" / name)
    homes = {key: name for name, half in zip(names, halves, strict=True) for key in half}
    index = {"metadata": {}, "weight_map": homes}
    (folder / "unet" / "diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps(index))
    equal(regard.load(folder), before)


def test_pickled_weights_only_by_convert(folder: Path, tmp_path: Path) -> None:
    before = regard.load(folder)
    path = folder / "unet" / "diffusion_pytorch_model.safetensors"
    torch.save(load_file(path), path.with_suffix(".bin"))
    path.unlink()
    assert "regard convert" in told(folder)
    assert regard.convert(folder, tmp_path / "ours") == []
    again = regard.load(tmp_path / "ours")
    equal(again, before)
    assert "a pipeline of diffusers" in again.card
    assert again.processor.to_data() == before.processor.to_data()
    drawer, other = PromptDrawer(*vars_of(again)), PromptDrawer(*vars_of(before))
    assert drawer.tokens("the cat!").ids == other.tokens("the cat!").ids


# ---------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("part", WEIGHTS)
def test_tensors_that_do_not_fit_are_named_with_their_subfolder(part: str, folder: Path) -> None:
    path = folder / part / f"{WEIGHTS[part]}.safetensors"
    tensors = load_file(path)
    lost, misshapen = sorted(tensors)[:2]
    shape = tuple(tensors[misshapen].shape)
    tensors |= {"one.more": torch.zeros(2), misshapen: torch.zeros(3, *shape)}
    del tensors[lost]
    save_file(tensors, path)
    found = told(folder)
    assert "1 missing, 1 unexpected, 1 of the wrong shape" in found
    assert f"{part}.{lost} " in found
    assert f"{part}.one.more (2,)" in found
    assert f"{part}.{misshapen} {(3, *shape)}, expected {shape}" in found


@pytest.mark.parametrize("name", CONFIGS)
def test_unknown_keys_are_named_with_their_file(name: str, folder: Path) -> None:
    changed(folder / name, lambda data: data.update(no_such_key=3))
    found = told(folder)
    assert "unknown key 'no_such_key' = '3'" in found
    assert str(folder / name) in found


@pytest.mark.parametrize("name", [*WEIGHTS, "scheduler", "tokenizer"])
def test_a_missing_subfolder_is_told(name: str, folder: Path) -> None:
    shutil.rmtree(folder / name)
    assert f"missing: {name}" in told(folder)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"_class_name": "StableDiffusionXLPipeline"}, "this one has two text encoders"),
        ({"_class_name": "StableDiffusionControlNetPipeline"}, "without the control network"),
        ({"_class_name": "StableDiffusion3Pipeline"}, "this one has no U-Net"),
        ({"_class_name": "NoSuchPipeline"}, "_class_name = 'NoSuchPipeline'"),
        ({"text_encoder_2": ["transformers", "CLIPTextModel"]}, "unknown key 'text_encoder_2'"),
        ({"image_encoder": ["transformers", "CLIPVisionModelWithProjection"]}, "image_encoder"),
        ({"scheduler": ["diffusers", "UniPCMultistepScheduler"]}, "UniPCMultistepScheduler"),
        ({"vae": ["diffusers", "AsymmetricAutoencoderKL"]}, "vae = ['diffusers', 'AsymmetricAutoencoderKL']"),
        ({"unet": [None, None]}, "unet = [None, None]"),
    ],
)
def test_other_pipelines_are_refused(change: dict[str, Any], expected: str, folder: Path) -> None:
    changed(folder / "model_index.json", lambda data: data.update(change))
    assert expected in told(folder)


def test_lora_is_refused_with_what_to_do(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    for place in (folder, alone):
        save_file({"unet.x.lora_A.weight": torch.zeros(2, 2)}, place / "pytorch_lora_weights.safetensors")
        assert "fuse_lora()" in told(place)


CHANGES: list[tuple[str, Callable[[dict[str, Any]], None], str]] = [
    ("unet/config.json", lambda x: x.update(sample_size=None), "unet: sample_size is missing"),
    ("unet/config.json", lambda x: x.update(in_channels=8), "in_channels = 8 is not supported, expected 4 (noise)"),
    ("unet/config.json", lambda x: x.update(cross_attention_dim=24), "cross_attention_dim = 24, but the text"),
    ("unet/config.json", lambda x: x.update(out_channels=8), "out_channels = 8, but the autoencoder's latents have 4"),
    ("unet/config.json", lambda x: x.update(_class_name="UNet2DModel"), "of another kind"),
    ("vae/config.json", lambda x: x.update(shift_factor=0.1), "shift_factor = 0.1"),
    ("text_encoder/config.json", lambda x: x.update(model_type="bert"), "of another kind"),
    ("tokenizer/tokenizer_config.json", lambda x: x.update(model_max_length=77), "model_max_length = 77"),
    ("tokenizer/tokenizer_config.json", lambda x: x.update(pad_token="no such"), "pad_token is not in the vocabulary"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "expected"), CHANGES, ids=[x[2] for x in CHANGES])
def test_parts_that_do_not_belong_together(name: str, change: Any, expected: str, folder: Path) -> None:
    changed(folder / name, change)
    assert expected in told(folder)


# ---------------------------------------------------------------------------------------------------- what is written


@pytest.mark.parametrize("sampler", CLASSES)
def test_out_and_in_again(sampler: str, folder: Path, tmp_path: Path) -> None:
    """The scheduler's file says the same to them, and all tensors are as they were."""
    keys = {"timestep_spacing": "trailing", "prediction_type": "v_prediction"}
    keys |= {} if sampler == "plms" else {"rescale_betas_zero_snr": True}
    before = scheduler(sampler, **keys)
    before.save_pretrained(folder / "scheduler")
    kind = ["diffusers", type(before).__name__]
    changed(folder / "model_index.json", lambda data: data.update(scheduler=kind))
    model = regard.load(folder)
    assert regard.export(model, tmp_path / "out") == []
    equal(regard.load(tmp_path / "out"), model)
    after = type(before).from_pretrained(tmp_path / "out" / "scheduler")
    free = {"_use_default_values", "_diffusers_version", "clip_sample_range"}
    assert {k: x for k, x in after.config.items() if k not in free} == {
        k: x for k, x in before.config.items() if k not in free and k in after.config
    }
    for part, name in WEIGHTS.items():
        ours, theirs = (load_file(place / part / f"{name}.safetensors") for place in (tmp_path / "out", folder))
        ours = {
            key if key in theirs else key.removeprefix("text_model."): x for key, x in ours.items()
        }  # both are read
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(x, theirs[key]) for key, x in ours.items())


@pytest.mark.parametrize("kind", ["sd1", "sd2"])
def test_diffusers_draws_the_same_from_what_is_written(kind: str, tmp_path: Path) -> None:
    pipe = pipeline(tmp_path / "words", kind, "plms")
    model = regard.load(saved(pipe, tmp_path / "pipe"))
    regard.export(model, tmp_path / "out")
    again = diffusers.StableDiffusionPipeline.from_pretrained(tmp_path / "out", safety_checker=None)
    again.set_progress_bar_config(disable=True)
    noise = ImageNoise(0, [0], model.config.shape).start()
    asked = {"negative_prompt": "ö", "num_inference_steps": 3, "guidance_scale": 5.0, "latents": noise}
    one, other = (states(x, "the cat singing!", **asked) for x in (pipe, again))
    assert all(torch.equal(x, y) for x, y in zip(one[0], other[0], strict=True))
    assert one[1].tobytes() == other[1].tobytes()


def test_inpainting_is_written_as_such(tmp_path: Path) -> None:
    pipe = pipeline(tmp_path / "words", "sd1", "ddim", "Inpaint", channels=9)
    model = regard.load(saved(pipe, tmp_path / "pipe"))
    regard.export(model, tmp_path / "out")
    equal(regard.load(tmp_path / "out"), model)
    again = diffusers.DiffusionPipeline.from_pretrained(tmp_path / "out", safety_checker=None)
    assert type(again) is diffusers.StableDiffusionInpaintPipeline


def test_what_no_folder_can_say_is_not_written(folder: Path, tmp_path: Path) -> None:
    model = regard.load(folder)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"padding": "masked"}, "padding = 'masked'"),
        ({"sampling": {"solver": "ddim", "offset": 3, "spacing": "leading"}}, "sampling"),
        ({"denoiser": {"kind": "dit", "dim": 8, "heads": 2, "depth": 1}}, "denoiser.kind = 'dit'"),
    ]
    for change, expected in changes:
        net = type(model.net)(replace(model.config, **change))
        with pytest.raises(InputError, match=expected):
            regard.export(replace(model, net=net), tmp_path / "out")
    with pytest.raises(InputError, match="no tokenizer"):
        regard.export(replace(model, processor=None), tmp_path / "out")
    with pytest.raises(InputError, match="cannot be exported to this format"):
        regard.export(model, tmp_path / "out", to="timm")
    assert not (tmp_path / "out").exists()


def test_a_model_of_ours_without_any_folder(tmp_path: Path) -> None:
    """One that was built here, with words for a vocabulary: both libraries read what is written, to the same ids."""
    from regard.modalities.drawing.processor import Drawn
    from regard.modalities.drawing.prompted import Prompted
    from regard.modalities.images.processor import Images
    from regard.modalities.text.vocabulary import Vocabulary, with_frame

    words = with_frame(Vocabulary("words", 9).learn(["a red square on a blue circle"]))
    small = {"kind": "unet", "dim": 8, "multipliers": [1, 2], "depth": 1, "attended": [0], "heads": 2, "norm_groups": 4}
    shapes = {"latent": 2, "dim": 8, "multipliers": [1, 2], "depth": 1, "norm_groups": 4}
    text = {"dim": 8, "heads": 2, "depth": 1, "hidden": 12, "end": 2}
    parts = {"text": text, "denoiser": small, "autoencoder": shapes}
    model = regard.build("diffusion-tiny", padding="read", vocab=13, image=8, **parts)
    model = replace(model, processor=Prompted(Drawn(Images(size=8)), words))
    regard.export(model, tmp_path / "out")
    again = regard.load(tmp_path / "out")
    assert all(torch.equal(x, state(again)[name]) for name, x in state(model).items())
    theirs = diffusers.StableDiffusionPipeline.from_pretrained(tmp_path / "out", safety_checker=None).tokenizer
    found = theirs("a blue square", padding="max_length", truncation=True).input_ids
    assert list(PromptDrawer(*vars_of(model)).tokens("a blue square").ids) == found
    assert list(PromptDrawer(*vars_of(again)).tokens("a blue square").ids) == found


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["ddpm", "euler"])
def test_the_command_line(sampler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = saved(pipeline(tmp_path / "words", "sd2", sampler), tmp_path / "pipe")
    assert main(["export", str(pipe), str(tmp_path / "out")]) == 0
    assert "the same token ids, image" in capsys.readouterr().out
    assert main(["convert", str(pipe), str(tmp_path / "ours")]) == 0
    drawn = regard.load(tmp_path / "ours").draw("the cat", how=Drawing(n=1))
    assert drawn[0].pixels.shape == (3, 16, 16)
