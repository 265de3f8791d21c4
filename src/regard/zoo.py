"""The zoo: one explicit table of model families, and the sizes of each that have a name."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.errors import ConfigError, InputError
from regard.models import (
    bert,
    cait,
    captioner,
    deit,
    detr,
    gpt,
    levit,
    mixer,
    mlp,
    perceiver,
    perceiverlm,
    recurrent,
    reformer,
    resnet,
    rnn,
    swin,
    swinv2,
    switch,
    switchlm,
    t5,
    transformer,
    vit,
    volo,
    workspace,
)
from regard.nn.config import flaws, parse
from regard.nn.mechanisms import can_drop


@dataclass(frozen=True)
class Family:
    """One model file: its config, its net, its named sizes, and what the axes of its maps are."""

    config: type
    net: Callable[[Any], nn.Module]
    presets: Mapping[str, Any]
    axes: Mapping[str, tuple[str, str]]
    paper: str
    link: str
    papers: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # of presets that have another


FAMILIES: dict[str, Family] = {
    "transformer": Family(
        transformer.Config,
        transformer.Transformer,
        transformer.PRESETS,
        transformer.AXES,
        "Vaswani et al. 2017, Attention Is All You Need",
        "https://arxiv.org/abs/1706.03762",
        transformer.PAPERS,
    ),
    "rnn": Family(
        rnn.Config,
        rnn.RNNTranslator,
        rnn.PRESETS,
        rnn.AXES,
        "Bahdanau, Cho and Bengio 2015, Neural Machine Translation by Jointly Learning to Align and Translate",
        "https://arxiv.org/abs/1409.0473",
        rnn.PAPERS,
    ),
    "recurrent": Family(
        recurrent.Config,
        recurrent.RecurrentReader,
        recurrent.PRESETS,
        recurrent.AXES,
        "Graves 2013, Generating Sequences With Recurrent Neural Networks",
        "https://arxiv.org/abs/1308.0850",
        recurrent.PAPERS,
    ),
    "gpt": Family(
        gpt.Config,
        gpt.GPT,
        gpt.PRESETS,
        gpt.AXES,
        "Radford et al. 2019, Language Models are Unsupervised Multitask Learners",
        "https://openai.com/index/better-language-models",
        gpt.PAPERS,
    ),
    "bert": Family(
        bert.Config,
        bert.BERT,
        bert.PRESETS,
        bert.AXES,
        "Devlin et al. 2019, BERT",
        "https://arxiv.org/abs/1810.04805",
        bert.PAPERS,
    ),
    "t5": Family(
        t5.Config,
        t5.T5,
        t5.PRESETS,
        t5.AXES,
        "Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
        "https://arxiv.org/abs/1910.10683",
    ),
    "switch": Family(
        switch.Config,
        switch.SwitchTransformer,
        switch.PRESETS,
        switch.AXES,
        "Fedus, Zoph and Shazeer 2021, Switch Transformers",
        "https://arxiv.org/abs/2101.03961",
    ),
    "switchlm": Family(
        switchlm.Config,
        switchlm.SwitchLM,
        switchlm.PRESETS,
        switchlm.AXES,
        "Fedus, Zoph and Shazeer 2021, Switch Transformers",
        "https://arxiv.org/abs/2101.03961",
    ),
    "reformer": Family(
        reformer.Config,
        reformer.Reformer,
        reformer.PRESETS,
        reformer.AXES,
        "Kitaev, Kaiser and Levskaya 2020, Reformer: The Efficient Transformer",
        "https://arxiv.org/abs/2001.04451",
    ),
    "vit": Family(
        vit.Config,
        vit.ViT,
        vit.PRESETS,
        vit.AXES,
        "Dosovitskiy et al. 2021, An Image is Worth 16x16 Words",
        "https://arxiv.org/abs/2010.11929",
    ),
    "deit": Family(
        deit.Config,
        deit.DeiT,
        deit.PRESETS,
        deit.AXES,
        "Touvron et al. 2021, Training data-efficient image transformers & distillation through attention",
        "https://arxiv.org/abs/2012.12877",
    ),
    "cait": Family(
        cait.Config,
        cait.CaiT,
        cait.PRESETS,
        cait.AXES,
        "Touvron et al. 2021, Going deeper with Image Transformers",
        "https://arxiv.org/abs/2103.17239",
    ),
    "volo": Family(
        volo.Config,
        volo.VOLO,
        volo.PRESETS,
        volo.AXES,
        "Yuan et al. 2021, VOLO: Vision Outlooker for Visual Recognition",
        "https://arxiv.org/abs/2106.13112",
    ),
    "swin": Family(
        swin.Config,
        swin.Swin,
        swin.PRESETS,
        swin.AXES,
        "Liu et al. 2021, Swin Transformer",
        "https://arxiv.org/abs/2103.14030",
    ),
    "swinv2": Family(
        swinv2.Config,
        swinv2.SwinV2,
        swinv2.PRESETS,
        swinv2.AXES,
        "Liu et al. 2022, Swin Transformer V2",
        "https://arxiv.org/abs/2111.09883",
    ),
    "levit": Family(
        levit.Config,
        levit.LeViT,
        levit.PRESETS,
        levit.AXES,
        "Graham et al. 2021, LeViT",
        "https://arxiv.org/abs/2104.01136",
    ),
    "mixer": Family(
        mixer.Config,
        mixer.Mixer,
        mixer.PRESETS,
        mixer.AXES,
        "Tolstikhin et al. 2021, MLP-Mixer",
        "https://arxiv.org/abs/2105.01601",
    ),
    "resnet": Family(
        resnet.Config,
        resnet.ResNet,
        resnet.PRESETS,
        resnet.AXES,
        "He et al. 2016, Deep Residual Learning for Image Recognition",
        "https://arxiv.org/abs/1512.03385",
        resnet.PAPERS,
    ),
    "detr": Family(
        detr.Config,
        detr.DETR,
        detr.PRESETS,
        detr.AXES,
        "Carion et al. 2020, End-to-End Object Detection with Transformers",
        "https://arxiv.org/abs/2005.12872",
    ),
    "captioner": Family(
        captioner.Config,
        captioner.Captioner,
        captioner.PRESETS,
        captioner.AXES,
        "Liu et al. 2021, CPTR: Full Transformer Network for Image Captioning",
        "https://arxiv.org/abs/2101.10804",
    ),
    "perceiver": Family(
        perceiver.Config,
        perceiver.Perceiver,
        perceiver.PRESETS,
        perceiver.AXES,
        "Jaegle et al. 2021, Perceiver",
        "https://arxiv.org/abs/2103.03206",
        perceiver.PAPERS,
    ),
    "perceiverlm": Family(
        perceiverlm.Config,
        perceiverlm.PerceiverLM,
        perceiverlm.PRESETS,
        perceiverlm.AXES,
        *perceiver.IO,
    ),
    "workspace": Family(
        workspace.Config,
        workspace.Workspace,
        workspace.PRESETS,
        workspace.AXES,
        "Goyal et al. 2022, Coordination Among Neural Modules Through a Shared Global Workspace",
        "https://arxiv.org/abs/2103.01197",
    ),
    "mlp": Family(
        mlp.Config,
        mlp.MLP,
        mlp.PRESETS,
        mlp.AXES,
        "Rumelhart, Hinton and Williams 1986, Learning representations by back-propagating errors",
        "https://doi.org/10.1038/323533a0",
    ),
}

PRESETS: dict[str, str] = {name: family for family, entry in FAMILIES.items() for name in entry.presets}


@dataclass(frozen=True)
class Row:
    """What the catalog says of one model."""

    name: str
    family: str
    paper: str
    link: str
    sizes: dict[str, int | tuple[int, ...]]  # of a net in stages, one for each
    verified_against: dict[str, Any] | None
    shipped: bool  # with trained weights, for ``load``; all others are for ``build``


def catalog(pattern: str = "*") -> list[Row]:
    """The models whose names match: papers, sizes, and what each was checked against, how closely."""
    verified = json.loads(files("regard").joinpath("verified.json").read_text("utf-8"))
    trained = shipped()
    known = {name: (family, FAMILIES[family].presets[name]) for name, family in PRESETS.items()} | trained
    rows = []
    for name, (family, config) in known.items():
        if fnmatchcase(name, pattern):
            entry = FAMILIES[family]
            shown = [key for key in ("dim", "depth", "heads", "length", "vocab", "classes") if hasattr(config, key)]
            sizes = {"parameters": parameters(bare(family, config))} | {key: getattr(config, key) for key in shown}
            own = [row for key, row in verified.items() if key.split("-")[0] == family]
            checked = evidence(config, own)
            paper, link = entry.papers.get(name, (entry.paper, entry.link))
            rows.append(Row(name, family, paper, link, sizes, checked, name in trained))
    return rows


def shipped() -> dict[str, tuple[str, Any]]:
    """The models that come with trained weights: name -> family and config."""
    found = {}
    for folder in sorted(files("regard").joinpath("pretrained").iterdir(), key=lambda folder: folder.name):
        if (card := folder.joinpath("regard.json")).is_file():
            data = json.loads(card.read_text("utf-8"))
            found[folder.name] = data["model"], read_config(data["model"], data["config"], folder.name)
    return found


def evidence(config: Any, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What the parity run measured of models with these settings, and the largest of its differences."""
    for found in rows:
        if all(getattr(config, key) == value for key, value in found["where"].items()):
            told = {key: value for key, value in found.items() if key != "where"}
            return told | {"difference": max(found["logits"], found["gradients"], found["maps"])}
    return None


def preset(name: str, changes: Mapping[str, Any]) -> tuple[str, Any]:
    """The family and config of a named model, some keys changed. All that is wrong comes in one error."""
    if name not in PRESETS:
        raise no_such_model(name, changes)
    family, data = PRESETS[name], changed(name, changes)
    try:
        return family, parse(FAMILIES[family].config, data)
    except ValueError as error:
        problems = [*str(error).split("\n"), *refused(family, data)]
        raise no_config(family, problems, f"{name} with {dict(changes)}") from None


def misfits(name: str, changes: Mapping[str, Any]) -> list[str]:
    """What is wrong with a named model once these keys are changed, though each alone is right."""
    family, data = PRESETS[name], changed(name, changes)
    return [*flaws(FAMILIES[family].config, data), *refused(family, data)] if changes else []


def changed(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """With another attention, one that has no weights to drop, dropout of weights is off unless it was asked for."""
    data = config_data(FAMILIES[PRESETS[name]].presets[name]) | dict(changes)
    picked = "attention" in changes and "attention_dropout" in data and "attention_dropout" not in changes
    return data | {"attention_dropout": 0.0} if picked and not can_drop(changes["attention"]) else data


def no_such_model(name: str, changes: Mapping[str, Any]) -> InputError:
    """With what is wrong in the changes too, if the name tells the family that was meant."""
    near = get_close_matches(name, PRESETS, 1, cutoff=0.7)
    family = PRESETS[near[0]] if near else next((family for family in FAMILIES if name.startswith(family)), None)
    fix = "`regard models` lists all of them"
    if family is not None:
        fix = f"did you mean {near[0]!r}?" if near else f"of {family} there are {', '.join(FAMILIES[family].presets)}"
    more = [] if family is None else flaws(FAMILIES[family].config, changes)
    what = "no model has this name" + (f", and its changes are not those of a {family}" if more else "")
    return InputError(what, got=in_lines([name, *more]), expected=", ".join(PRESETS), fix=fix)


def refused(family: str, data: Mapping[str, Any]) -> list[str]:
    """What the net says to the keys that are known, if they can be read: an attention that it cannot take."""
    kind = FAMILIES[family].config
    known = {one.name: data[one.name] for one in fields(kind) if one.name in data}
    try:
        bare(family, parse(kind, known))
    except ConfigError as error:
        return [error.got]
    except ValueError:
        return []  # told already
    return []


def read_config(family: str, data: Mapping[str, Any], where: str) -> Any:
    """A family's config from plain data, strictly."""
    try:
        return parse(FAMILIES[family].config, data)
    except ValueError as error:
        raise no_config(family, str(error).split("\n"), where) from None


def no_config(family: str, problems: list[str], where: str) -> ConfigError:
    return ConfigError(f"this is no config of the {family} family", where=where, got=in_lines(problems))


def in_lines(problems: list[str]) -> str:
    return problems[0] if len(problems) == 1 else "".join(f"\n    {problem}" for problem in problems)


def config_data(config: Any) -> dict[str, Any]:
    """A config as plain data for JSON or TOML; what is not set is left out."""
    return {key: value for key, value in asdict(config).items() if value is not None}


class Untouched(TorchFunctionMode):
    """Within, tensors without memory are not given random values: for nothing, PyTorch would load its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in RANDOM:
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        return func(*args, **(kwargs or {}))


RANDOM = {nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_, nn.init.trunc_normal_}
RANDOM |= {torch.Tensor.normal_, torch.Tensor.uniform_}


def bare(family: str, config: Any, where: str = "") -> nn.Module:
    """The net without memory, to be measured, checked or filled; ``where`` is the file that the config is from."""
    try:
        with torch.device("meta"), Untouched():
            return FAMILIES[family].net(config)
    except (ValueError, RuntimeError, OverflowError, ZeroDivisionError) as error:  # an impossible size
        raise ConfigError(f"this {family} cannot be built", where=where, got=str(error).splitlines()[0]) from None


def parameters(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())
