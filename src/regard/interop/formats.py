"""One table: the kinds of foreign checkpoints, by the ``model_type`` of their config."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from regard.decode.symbols import foreign_symbols
from regard.errors import CheckpointError, ConfigError
from regard.tables import Table
from regard.zoo import empty_net

from . import (
    albert,
    bert,
    blenderbot,
    cait,
    clip,
    cliptext,
    deit,
    detr,
    distilbert,
    fnet,
    gpt1,
    gpt2,
    levit,
    llama,
    llama2c,
    marian,
    mixer,
    perceiver,
    reformer,
    resnet,
    starcoder2,
    swin,
    switch,
    t5,
    timm,
    timm_swin,
    timm_vit,
    vit,
    volo,
)
from .converted import ConvertedCheckpoint, Read
from .equivalents import Restate, hidden_given, norm_frozen, pooler_dropped, sines_first, unchanged
from .foreign import ForeignConfig
from .rules import Entry, Groups, converted_tensors, counted, listed, misfits, needed, spare


@dataclass(frozen=True)
class CheckpointFormat:
    family: str
    config: Callable[[ForeignConfig], Any]
    complete: Callable[[Any, Collection[str]], Any]  # what only the tensors' names tell
    rules: Callable[[Any, Collection[str] | None], list[Entry]]
    export_config: Callable[[Any], dict[str, Any]]
    symbols: Mapping[str, int | None]  # the keys of their special tokens, and what stands where one is left out
    example: Callable[[], Any] | None = None  # a small config that their format can say; the family's unless given
    restate: Restate = unchanged  # ours in the words that their format has


def as_it_is(config: Any, names: Collection[str]) -> Any:
    return config


def today(read: Callable[[ForeignConfig], Any], export_config: Callable[[Any], dict[str, Any]]) -> CheckpointFormat:
    """Of Llama and its kin."""
    return CheckpointFormat(
        "gpt", read, llama.complete, llama.rules, export_config, llama.SYMBOLS, restate=hidden_given
    )


ENCODERS: dict[str, Any] = {"bert": bert, "albert": albert, "distilbert": distilbert, "fnet": fnet}


def encoder(table: Any) -> CheckpointFormat:
    """Of BERT and its kin."""
    return CheckpointFormat(
        "bert",
        table.config,
        table.complete,
        table.rules,
        table.export_config,
        table.SYMBOLS,
        restate=unchanged if table is fnet else pooler_dropped,  # theirs has one under every head
    )


CHECKPOINT_FORMATS = Table[CheckpointFormat](
    "kind of checkpoint",
    {
        "gpt2": CheckpointFormat("gpt", gpt2.config, as_it_is, gpt2.rules, gpt2.export_config, gpt2.SYMBOLS),
        "starcoder2": CheckpointFormat(
            "gpt",
            starcoder2.config,
            as_it_is,
            starcoder2.rules,
            starcoder2.export_config,
            starcoder2.SYMBOLS,
            starcoder2.example,
            restate=hidden_given,
        ),
        "openai-gpt": CheckpointFormat("gpt", gpt1.config, as_it_is, gpt1.rules, gpt1.export_config, gpt1.SYMBOLS),
        "llama": today(llama.config, llama.export_config),
        "mistral": today(llama.mistral, llama.export_mistral),
        "qwen2": today(llama.qwen2, llama.export_qwen2),
        llama2c.KIND: CheckpointFormat(
            "gpt", llama2c.config, llama2c.complete, llama2c.rules, llama2c.export_config, llama2c.SYMBOLS
        ),
        **{name: encoder(table) for name, table in ENCODERS.items()},
        "t5": CheckpointFormat("t5", t5.config, t5.complete, t5.rules, t5.export_config, t5.SYMBOLS),
        "switch_transformers": CheckpointFormat(
            "switch", switch.config, as_it_is, switch.rules, switch.export_config, t5.SYMBOLS
        ),
        "reformer": CheckpointFormat(
            "reformer", reformer.config, reformer.complete, reformer.rules, reformer.export_config, reformer.SYMBOLS
        ),
        "vit": CheckpointFormat("vit", vit.config, vit.complete, vit.rules, vit.export_config, {}),
        timm_vit.KIND: CheckpointFormat("vit", timm_vit.config, as_it_is, timm_vit.rules, timm_vit.export_config, {}),
        "deit": CheckpointFormat("deit", deit.config, deit.complete, deit.rules, deit.export_config, {}),
        timm_vit.DISTILLED: CheckpointFormat(
            "deit", timm_vit.distilled, as_it_is, timm_vit.distilled_rules, timm_vit.export_distilled, {}
        ),
        cait.KIND: CheckpointFormat("cait", cait.config, as_it_is, cait.rules, cait.export_config, {}),
        volo.KIND: CheckpointFormat("volo", volo.config, as_it_is, volo.rules, volo.export_config, {}),
        "resnet": CheckpointFormat("resnet", resnet.config, resnet.complete, resnet.rules, resnet.export_config, {}),
        "detr": CheckpointFormat(
            "detr", detr.config, as_it_is, detr.rules, detr.export_config, {}, restate=norm_frozen
        ),
        detr.TIMM: CheckpointFormat("detr", detr.config_timm, as_it_is, detr.rules_timm, detr.export_timm, {}),
        "clip": CheckpointFormat("clip", clip.config, as_it_is, clip.rules, clip.export_config, {}, clip.example),
        cliptext.KIND: CheckpointFormat(
            "cliptext",
            cliptext.config,
            cliptext.complete,
            cliptext.rules,
            cliptext.export_config,
            cliptext.SYMBOLS,
            cliptext.example,
        ),
        "perceiver": CheckpointFormat(
            "perceiver", perceiver.images, as_it_is, perceiver.image_rules, perceiver.export_images, {}
        ),
        perceiver.TEXT: CheckpointFormat(
            "perceiverlm", perceiver.text, as_it_is, perceiver.text_rules, perceiver.export_text, {}
        ),
        mixer.KIND: CheckpointFormat("mixer", mixer.config, as_it_is, mixer.rules, mixer.export_config, {}),
        "swin": CheckpointFormat("swin", swin.config, swin.complete, swin.rules, swin.export_config, {}),
        timm_swin.KIND: CheckpointFormat(
            "swin", timm_swin.config, as_it_is, timm_swin.rules, timm_swin.export_config, {}
        ),
        "swinv2": CheckpointFormat("swinv2", swin.second, swin.complete, swin.second_rules, swin.export_second, {}),
        timm_swin.SECOND: CheckpointFormat(
            "swinv2", timm_swin.second, as_it_is, timm_swin.second_rules, timm_swin.export_second, {}
        ),
        "levit": CheckpointFormat("levit", levit.config, levit.complete, levit.rules, levit.export_config, {}),
        levit.TIMM: CheckpointFormat(
            "levit", levit.folder, levit.complete, levit.folder_rules, levit.export_folder, {}
        ),
        "marian": CheckpointFormat(
            "transformer",
            marian.config,
            as_it_is,
            marian.rules,
            marian.export_config,
            marian.SYMBOLS,
            restate=sines_first,
        ),
        "blenderbot": CheckpointFormat(
            "transformer",
            blenderbot.config,
            as_it_is,
            blenderbot.rules,
            blenderbot.export_config,
            blenderbot.SYMBOLS,
            blenderbot.example,
            restate=sines_first,
        ),
    },
)


def checkpoint_kind(data: Mapping[str, Any]) -> str:
    """The name of the format in CHECKPOINT_FORMATS; timm's configs have an architecture instead of a model_type."""
    if "model_type" not in data and "architecture" in data:
        return timm_kind(str(data["architecture"]))
    if data.get("model_type") == "detr" and detr.of_timm(data):
        return detr.TIMM
    if data.get("model_type") == "perceiver" and perceiver.architecture(data) == perceiver.WORDS:
        return perceiver.TEXT
    return str(data.get("model_type"))


def timm_kind(architecture: str) -> str:
    """By the first word of the name; without its second token, a DeiT is a ViT."""
    word, _, rest = architecture.partition("_")
    if word == "deit" and "distilled" not in rest:
        word = "vit"
    return timm.KIND + word


def import_checkpoint(
    data: Mapping[str, Any],
    generation: Mapping[str, Any],
    header: Mapping[str, tuple[int, ...]],
    read: Read,
    where: Path,
) -> ConvertedCheckpoint:
    """Convert a foreign checkpoint. Every key of the config and every tensor must be accounted for; one error lists the
    rest."""
    told = checkpoint_kind(data)
    kind = CHECKPOINT_FORMATS.get(told)
    if kind is None:
        raise CheckpointError(
            "unknown model type of a checkpoint",
            where=str(where / "config.json"),
            got=f"model_type = {told[:60]!r}",
            expected=", ".join(CHECKPOINT_FORMATS),
            fix="" if data.get("model_type") else "add the model_type of these weights to this file",
        )
    foreign, path = ForeignConfig(data, tensors=len(header)), where / "config.json"
    config, impossible = None, []
    try:
        config = kind.config(foreign)
    except ValueError as error:
        impossible = str(error).split("\n")
    wrong = foreign.finish()
    if foreign.guessed or config is None:  # then nothing can be said of the tensors
        refuse({"invalid in the config": wrong if foreign.guessed else [*wrong, *impossible]}, path)
    config = kind.complete(config, header)
    try:
        net = empty_net(kind.family, config, str(path))
    except ConfigError as error:
        sizes = ", ".join(f"{key} = {size}" for key, size in foreign.sizes.items())
        refuse({"invalid in the config": [*wrong, f"cannot build a model with {sizes}: {error.got}"]}, path)
    rules = kind.rules(config, header)
    wanted = {name: tuple(x.shape) for name, x in net.state_dict().items()}
    expected, copies = needed(wanted, rules), spare(header, rules)
    given = {name: shape for name, shape in header.items() if name not in copies}
    run = converted_tensors(read(expected.keys() | copies), rules)  # the header has told of all others
    problems = {"invalid in the config": wrong} | misfits(expected, given) | {"inconsistent": run.unequal}
    whole = {run.writers[name]: x.dtype for name, x in run.out.items() if not x.is_floating_point()}
    problems["not floating point"] = [f"{name}: {dtype}" for name, dtype in whole.items()]
    if any(problems.values()):
        refuse(problems, where)
    symbols = foreign_symbols([generation, {**kind.symbols, **data}], getattr(config, "vocab", 0))
    labels = foreign_labels(data, config)
    return ConvertedCheckpoint(kind.family, config, run.finish("the tensors cannot be converted"), symbols, labels)


def foreign_labels(data: Mapping[str, Any], config: Any) -> tuple[str, ...]:
    """The names of the classes, if each has one of its own; LABEL_0 and the like, which they write by themselves, are
    none."""
    told, count = data.get("id2label", data.get("label_names")), getattr(config, "classes", 0)
    if isinstance(told, list):  # timm's, where no number is left out
        told = {str(i): name for i, name in enumerate(told)}
    if not isinstance(told, dict) or set(told) != {str(i) for i in range(count)}:
        return ()
    names = [told[str(i)] for i in range(count)]
    if not all(isinstance(name, str) for name in names) or names == unnamed(count):
        return ()
    return tuple(names)


def unnamed(count: int) -> list[str]:
    return [f"LABEL_{i}" for i in range(count)]


def refuse(problems: Groups, where: Path) -> NoReturn:
    raise CheckpointError(
        f"this checkpoint cannot be converted exactly: {counted(problems)}",
        where=str(where),
        got=listed(problems),
        expected="a config.json of which every key is supported, and exactly the tensors that it describes",
        fix="correct the files; nothing is loaded, as a skipped key or tensor could change every output",
    )
