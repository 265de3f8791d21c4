"""A model that draws from texts, written as diffusers stores Stable Diffusion."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import models
from torch import Tensor

from regard.errors import InputError
from regard.interop import stable_diffusion as table
from regard.interop.pipeline_parts import BOUND, combined, part_config
from regard.interop.rules import export_tensors
from regard.modalities.text.processor import Text
from regard.models.diffusion import Config
from regard.storage.documents import json_bytes
from regard.storage.subfolders import Files, save_subfolders

from .prompted import Prompted


def write_whole(config: Config, processor: Any, state: Mapping[str, Tensor], out: Path) -> dict[str, Tensor]:
    """Write a model as a folder that diffusers opens. What it cannot say is an error. Returns the tensors."""
    if not isinstance(processor, Prompted):
        raise InputError("this model has no tokenizer, without which it is no pipeline")
    text = processor.text
    configs = table.part_configs(config)
    said = {part.folder: part.export_config(configs[part.folder]) for part in table.PARTS}
    scheduler = {key: x for key, x in table.scheduler_config(config).items() if key != BOUND}
    refuse_lost(config, said, scheduler, out)
    tensors = export_tensors(state, table.whole_rules(configs)).finish("the tensors cannot be exported")
    tokenizer = tokenizer_files(text, config)
    kind = json.loads(tokenizer["tokenizer_config.json"])["tokenizer_class"]
    parts: dict[str, Files] = {"scheduler": {"scheduler_config.json": json_bytes(scheduler)}, "tokenizer": tokenizer}
    for part in table.PARTS:
        mine = {name.removeprefix(f"{part.folder}."): x for name, x in tensors.items() if name.startswith(part.folder)}
        parts[part.folder] = {"config.json": json_bytes(said[part.folder]), f"{part.weights}.safetensors": mine}
    save_subfolders(Path(out), {table.INDEX: json_bytes(table.exported_index(config, kind))}, parts)
    return tensors


def refuse_lost(config: Config, said: Mapping[str, Mapping[str, Any]], scheduler: Mapping[str, Any], out: Path) -> None:
    """Read what would be written, and compare."""
    read = {part.folder: part_config(part, said[part.folder], None, out) for part in table.PARTS}
    index = table.exported_index(config, "")
    back = replace(combined(read, table.scheduler_data(scheduler, index), out), filler=config.filler)
    if lost := table.lost_keys(config, back):
        raise InputError(
            "this model cannot be exported: a pipeline of Stable Diffusion cannot represent its config",
            got=", ".join(f"{key} = {ours!r}" for key, (ours, _) in lost.items()),
            expected=", ".join(f"{key} = {theirs!r}" for key, (_, theirs) in lost.items()),
            fix="export a model with the expected values, or keep this one with `regard.save`",
        )


def tokenizer_files(text: Text, config: Config) -> dict[str, bytes]:
    """As both kinds of readers want it: in one file, and for pairs of bytes as older ones have them."""
    tokenizer, framed = text.tokenizer, text.ids([""])[0]
    if len(framed) != 2:
        raise InputError(
            "the tokenizer puts no begin and no end around a text", fix="train the model with a tokenizer that does"
        )
    begin, end = (tokenizer.id_to_token(i) for i in framed)
    pad = end if config.filler is None else tokenizer.id_to_token(config.filler)
    ended = isinstance(tokenizer.model, models.BPE) and tokenizer.model.end_of_word_suffix == "</w>"
    unknown = getattr(tokenizer.model, "unk_token", None)
    settings = {
        "tokenizer_class": "CLIPTokenizer" if ended else "PreTrainedTokenizerFast",
        "model_max_length": config.length,
        "bos_token": begin,
        "eos_token": end,
        "pad_token": pad,
        "unk_token": end if ended else unknown if isinstance(unknown, str) else None,
    }
    told = {key: x for key, x in settings.items() if x is not None}
    files = {"tokenizer.json": text.to_bytes(), "tokenizer_config.json": json_bytes(told)}
    if ended:
        data = json.loads(text.to_bytes())["model"]
        merges = [one if isinstance(one, str) else " ".join(one) for one in data["merges"]]
        files["vocab.json"] = json.dumps(data["vocab"], ensure_ascii=False).encode("utf-8")
        files["merges.txt"] = "\n".join(("#version: 0.2", *merges, "")).encode("utf-8")
        roles = {key: x for key, x in told.items() if key.endswith("_token")}
        files["special_tokens_map.json"] = json_bytes(roles)
    return files
