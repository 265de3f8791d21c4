"""What stands beside the vocabulary of a foreign tokenizer: its settings, its special tokens and those added later.

Newer folders keep all of it in tokenizer_config.json; in older ones special_tokens_map.json and added_tokens.json say
some of it, and the former wins over the settings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from regard.storage.documents import read_json
from regard.storage.untrusted import quote_name, refuse_file

SETTINGS, MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
NAMED = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
EXTRA = ("extra_special_tokens", "additional_special_tokens")
MOST_ADDED_TOKENS = 100_000  # added tokens that no honest folder has


@dataclass(frozen=True)
class TokenSettings:
    """The settings of a folder, and its added tokens by their ids."""

    folder: Path
    data: Mapping[str, Any]
    added: Mapping[int, AddedToken]

    def word(self, key: str, default: str | None) -> str | None:
        """A special token, which is a text or a table with its content; null is none."""
        value = self.data.get(f"{key}_token", default)
        value = value.get("content", default) if isinstance(value, dict) else value
        return value if isinstance(value, str) else None if value is None else default

    def flag(self, key: str, default: bool) -> bool:
        value = self.data.get(key, default)
        return value if isinstance(value, bool) else default

    def extra(self) -> list[str]:
        """The special tokens without a role."""
        found: Any = next((self.data[key] for key in EXTRA if self.data.get(key)), [])
        listed = list(found.values()) if isinstance(found, dict) else found if isinstance(found, list) else []
        words = [x.get("content") if isinstance(x, dict) else x for x in listed]
        return [x for x in words if isinstance(x, str)]


def read_token_settings(folder: Path) -> TokenSettings:
    data = beside(folder, SETTINGS)
    if isinstance(told := data.get("added_tokens_decoder"), dict):
        where = folder / SETTINGS
        return TokenSettings(folder, data, {number(i, where): token(x, where) for i, x in few(told, where).items()})
    data |= beside(folder, MAP)
    settings = TokenSettings(folder, data, {})
    special = {settings.word(key, None) for key in NAMED} | set(settings.extra())
    where = folder / ADDED
    added = {
        number(i, where): AddedToken(text, normalized=text not in special, special=text in special)
        for text, i in few(beside(folder, ADDED), where).items()
    }
    return TokenSettings(folder, data, added)


def beside(folder: Path, name: str) -> dict[str, Any]:
    return read_json(folder / name) if (folder / name).is_file() else {}


def few(table: dict[str, Any], where: Path) -> dict[str, Any]:
    if len(table) > MOST_ADDED_TOKENS:
        refuse_file(where, f"there are {len(table)} added tokens, more than the limit of {MOST_ADDED_TOKENS}")
    return table


def number(value: Any, where: Path) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or not text.isascii() or len(text) > 12:
        refuse_file(where, f"{quote_name(text)} is not the id of an added token")
    return int(text)


def token(told: Any, where: Path) -> AddedToken:
    """An added token from its table."""
    content = told.get("content") if isinstance(told, dict) else told
    if not isinstance(content, str) or not content:
        refuse_file(where, "an added token has no content")
    flags = told if isinstance(told, dict) else {}
    names = ("single_word", "lstrip", "rstrip", "special")
    plain = {name: flags.get(name) is True for name in names}
    return AddedToken(content, normalized=flags.get("normalized", not plain["special"]) is True, **plain)


def add_tokens(tokenizer: Tokenizer, settings: TokenSettings, named: Mapping[str, str | None], *more: str) -> None:
    """The added tokens in the order of their ids, then the special ones that are not among them: those with a role,
    which a kind of tokenizer names if the folder does not, those without one, and ``more``. An id that a folder tells
    must be the one that its token gets."""
    for i, added in sorted(settings.added.items()):
        tokenizer.add_tokens([added])
        if (found := tokenizer.token_to_id(added.content)) != i:
            name = SETTINGS if "added_tokens_decoder" in settings.data else ADDED
            got = f"{quote_name(added.content)} with the id {i}, where the vocabulary gives it {found}"
            refuse_file(
                settings.folder / name, "an added token has an id that does not follow from the vocabulary: " + got
            )
    roles = [settings.word(key, named.get(key)) for key in NAMED]
    taken = {added.content for added in settings.added.values()}
    add_special(tokenizer, [x for x in [*roles, *settings.extra(), *more] if x is not None and x not in taken])


def add_special(tokenizer: Tokenizer, words: Iterable[str]) -> None:
    tokenizer.add_special_tokens([AddedToken(x, normalized=False, special=True) for x in dict.fromkeys(words)])
