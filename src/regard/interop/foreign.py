"""A foreign config, read so that no key goes unnoticed: each is taken, known to be irrelevant, or an error."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from regard.nn.config import fits_type, type_words
from regard.storage.untrusted import quote_name

T = TypeVar("T", bool, int, float, str)

# They change no number that a model computes: bookkeeping, generation settings, training settings.
IRRELEVANT = frozenset(
    {
        "architectures",
        "transformers_version",
        "_name_or_path",
        "_commit_hash",
        "torch_dtype",
        "dtype",
        "use_cache",
        "return_dict",
        "name_or_path",
        "output_attentions",
        "output_hidden_states",
        "output_past",
        "initializer_range",
        "initializer_factor",
        "init_std",
        "gradient_checkpointing",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "decoder_start_token_id",
        "forced_eos_token_id",
        "forced_bos_token_id",
        "sep_token_id",
        "is_encoder_decoder",
        "problem_type",
        "task_specific_params",
        "id2label",
        "label2id",
        "finetuning_task",
        "chunk_size_feed_forward",
        "num_beams",
        "max_length",
        "min_length",
        "early_stopping",
        "length_penalty",
        "no_repeat_ngram_size",
        "bad_words_ids",
        "n_ctx",
        "torchscript",
        "tokenizer_class",
        "prefix",
        "use_bfloat16",
        "model_type",
        "classifier_dropout",
        "num_labels",
        "_num_labels",
        "_attn_implementation_autoset",
        "do_sample",
        "temperature",
        "top_k",
        "top_p",
        "num_return_sequences",
        "num_beam_groups",
        "diversity_penalty",
        "repetition_penalty",
        "encoder_no_repeat_ngram_size",
        "output_scores",
        "return_dict_in_generate",
        "remove_invalid_values",
        "predict_special_tokens",
    }
)

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
THEIR_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "silu", "tanh": "tanh"}


class ForeignConfig:
    """Reads a foreign config.json key by key and collects every problem for one error.

    ``tensors`` is how many tensors there are beside it, if that is known: no config has more layers.
    """

    def __init__(self, data: Mapping[str, Any], tensors: int | None = None) -> None:
        self.data, self.tensors = data, tensors
        self.read: set[str] = set()
        self.sizes: dict[str, int] = {}
        self.pairs: list[tuple[str, str]] = []  # sizes of which one must divide the other
        self.wrong: set[str] = set()  # keys whose value could not be taken
        self.problems: list[str] = []
        self.guessed = False  # a value could not be taken, so whatever follows from the config is wrong

    def take(self, key: str, kind: type[T], default: T | None = None) -> T:
        """The value of a key; one without a default must be there."""
        return self.checked(key, kind, default, lambda value: True, "")

    def size(self, key: str, default: int | None = None, least: int = 1) -> int:
        """A positive integer, at least ``least``."""
        self.sizes[key] = self.checked(key, int, default, lambda value: value >= least, f"at least {least}")
        return self.sizes[key]

    def depth(self, key: str, default: int) -> int:
        """The number of layers, at most the number of tensors of the checkpoint."""
        value = self.size(key, default)
        if self.tensors is not None and value > self.tensors:
            self.guess(f"{key} = {value} is more layers than the checkpoint has tensors, {self.tensors}")
        return value

    def several(self, key: str, default: tuple[int, ...], stages: int | None = None) -> tuple[int, ...]:
        """A list of positive integers, one for each of ``stages`` stages, or of any number of stages."""
        self.read.add(key)
        value = self.data.get(key, list(default))
        plain = isinstance(value, list | tuple) and 0 < len(value) <= 100 and stages in (None, len(value))
        if not plain or not all(type(x) is int and 1 <= x < 1 << 40 for x in value):
            self.wrong.add(key)
            many = "integers" if stages is None else f"{stages} integers"
            self.guess(f"{key} = {value!r}"[:100] + f" is not a list of {many}, each at least 1")
            return default
        return tuple(value)

    def depths(self, key: str, default: tuple[int, ...], stages: int | None = None) -> tuple[int, ...]:
        """The number of layers of each stage, in all at most the number of tensors of the checkpoint."""
        value = self.several(key, default, stages)
        if self.tensors is not None and sum(value) > self.tensors:
            self.guess(
                f"{key} = {list(value)}"[:100] + f" is more layers than the checkpoint has tensors, {self.tensors}"
            )
        return value

    def times(self, key: str, default: float, dim: int) -> int:
        """The number of hidden units, given as a multiple of the hidden size."""
        found = self.above_zero(key, default) * dim
        if not 1 <= found < 1 << 40 or found != int(found):
            self.guess(f"{key} = {self.data.get(key)!r}"[:100] + f" times {dim} is not an integer")
            return 1
        return int(found)

    def classes(self, least: int = 0) -> int:
        """The number of classes, from their names or their count."""
        self.ignore("id2label")
        labels = self.data.get("id2label")
        return len(labels) if isinstance(labels, dict) else self.size("num_labels", 2, least)

    def share(self, key: str, default: float) -> float:
        """A probability."""
        return self.checked(key, float, default, lambda value: 0 <= value < 1, "at least 0 and less than 1")

    def above_zero(self, key: str, default: float) -> float:
        return self.checked(key, float, default, lambda value: value > 0, "greater than 0")

    def divides(self, part: str, whole: str) -> None:
        """The size ``whole`` must be a multiple of ``part``; looked at when both were read."""
        self.pairs.append((part, whole))

    def checked(self, key: str, kind: type[T], default: T | None, right: Callable[[T], bool], wanted: str) -> T:
        self.read.add(key)
        value = self.data.get(key, default)
        fitting = fits_type(value, kind)
        if fitting and right(kind(value)):
            return kind(value)
        self.wrong.add(key)
        told = f"{key} = {value!r}"[:100] + (f" must be {wanted}" if fitting else f" is not {type_words(kind)}")
        self.guess(f"{key} is missing" if value is None else told)
        return kind(1)  # never used: an error follows

    def guess(self, problem: str) -> None:
        self.problems.append(problem)
        self.guessed = True

    def expect(self, key: str, *values: object) -> None:
        """A key that must be absent or have one of the supported values."""
        self.read.add(key)
        if key in self.data and self.data[key] not in values:
            allowed = " or ".join(repr(value) for value in values)
            self.problems.append(f"{key} = {self.data[key]!r}"[:100] + f" is not supported, expected {allowed}")

    def same(self, key: str, other: str, *values: object) -> None:
        """A key that, like ``expect``, must have the size that was read from another one."""
        self.expect(key, self.data.get(key) if other in self.wrong else self.sizes[other], *values)

    def activation(self, key: str) -> str:
        theirs = self.take(key, str)
        if theirs not in ACTIVATIONS and key not in self.wrong:
            self.problems.append(f"{key} = {theirs[:60]!r} is not supported, expected {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS.get(theirs, "gelu")

    def ignore(self, *keys: str) -> None:
        """Keys of this kind of model that change nothing it computes."""
        self.read.update(keys)

    def finish(self) -> list[str]:
        """All problems, by key; call it once, when all keys were read."""
        self.expect("pruned_heads", {})
        self.expect("tie_encoder_decoder", False)
        for part, whole in self.pairs:
            if not self.wrong & {part, whole} and self.sizes[whole] % self.sizes[part]:
                self.guess(f"{whole} = {self.sizes[whole]} is not a multiple of {part} = {self.sizes[part]}")
        unknown = [key for key in self.data if key not in self.read and key not in IRRELEVANT]
        return self.problems + [f"unknown key {quote_name(key)} = {str(self.data[key])[:60]!r}" for key in unknown]


def numbered(classes: int) -> dict[str, Any]:
    """The names that they give to classes that have none."""
    labels = {str(i): f"LABEL_{i}" for i in range(classes)}
    return {"id2label": labels, "label2id": {label: int(i) for i, label in labels.items()}}
