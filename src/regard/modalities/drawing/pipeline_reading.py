"""Stable Diffusion 1 and 2, as diffusers stores them, read as one model with its tokenizer."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from regard.errors import CheckpointError
from regard.interop import cliptext
from regard.interop.converted import ConvertedCheckpoint
from regard.interop.pipeline_parts import PartWeights, read_parts
from regard.interop.special_tokens import SETTINGS, read_token_settings
from regard.interop.stable_diffusion import FAMILY
from regard.modalities.images.processor import Images
from regard.modalities.processor import MissingProcessor, ProcessorFolder
from regard.modalities.text import processor_kind
from regard.modalities.text.processor import Text
from regard.models.diffusion import Config
from regard.zoo import FAMILIES

from .processor import Drawn
from .prompted import Prompted


@dataclass(frozen=True, eq=False)
class WholePipeline:
    found: ConvertedCheckpoint
    processor: Prompted


def read_whole(folder: Path, opened: Callable[[Path, str], PartWeights]) -> WholePipeline:
    parts = read_parts(folder, opened)
    tokenizer = read_tokenizer(folder / "tokenizer", parts.config)
    config = replace(parts.config, filler=tokenizer.filler)
    images = Images(size=config.image, channels=config.channels, mean=(0.5,), std=(0.5,))
    found = ConvertedCheckpoint(FAMILY, config, parts.state())
    return WholePipeline(found, Prompted(Drawn(images), tokenizer.text))


@dataclass(frozen=True, eq=False)
class PromptTokenizer:
    text: Text
    filler: int | None  # None: the end


def read_tokenizer(folder: Path, config: Config) -> PromptTokenizer:
    """With the token that prompts are filled up with."""
    home = ProcessorFolder(folder, FAMILIES[FAMILY], config)
    text = processor_kind.read_foreign({}, cliptext.KIND, home)
    if text is None or isinstance(text, MissingProcessor):
        got = "no vocab.json with merges.txt, and no tokenizer.json" if text is None else text.got
        raise CheckpointError("the tokenizer of the pipeline cannot be read", where=str(folder), got=got)
    settings = read_token_settings(folder)
    where = str(folder / SETTINGS)
    longest = settings.data.get("model_max_length", config.length)
    if longest != config.length and not (isinstance(longest, int | float) and longest > 10**9):  # that means nothing
        raise CheckpointError(
            "the tokenizer fills prompts up to another length than the text encoder reads",
            where=where,
            got=f"model_max_length = {longest!r}"[:100],
            expected=f"{config.length}, max_position_embeddings of the text encoder",
        )
    pad, end = settings.word("pad", None), text.ids([""])[0][-1]
    if pad is None:
        return PromptTokenizer(text, None)
    if (filler := text.tokenizer.token_to_id(pad)) is None:
        raise CheckpointError("the pad_token is not in the vocabulary", where=where, got=repr(pad[:60]))
    if filler == end:
        return PromptTokenizer(text, None)
    return PromptTokenizer(always_found(text, filler, where), filler)


def always_found(text: Text, token: int, where: str) -> Text:
    """In diffusers a prompt that has the token which fills it up, "!" in Stable Diffusion 2, means that token, and
    never the letter. So it does here: unlike a special token, this one is not taken for letters."""
    data = json.loads(text.to_bytes())
    for added in data["added_tokens"]:
        if added["id"] == token:
            added["special"] = False
    return Text.from_bytes(json.dumps(data).encode("utf-8"), where)
