"""A foreign config, read so that no key goes unnoticed: each is taken, known to be irrelevant, or an error."""

from collections.abc import Mapping
from typing import Any, TypeVar

from .suspicion import shown

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


MANY = 100  # keys that no honest config has need not all be printed


class Foreign:
    """Reads a config.json key by key and collects every problem for one error."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.read: set[str] = set()
        self.problems: list[str] = []
        self.guessed = False  # a value could not be taken, so whatever follows from the config is wrong

    def take(self, key: str, kind: type[T], default: T | None = None) -> T:
        """The value of a key; one without a default must be there."""
        self.read.add(key)
        value = self.data.get(key, default)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if (kind is float and whole) or (isinstance(value, kind) and (kind is bool or not isinstance(value, bool))):
            return kind(value)
        wrong = f"{key} = {value!r}"[:100] + f" is not of type {kind.__name__}"
        self.problems.append(f"{key} is missing" if value is None else wrong)
        self.guessed = True
        return kind(1)  # never used: an error follows

    def expect(self, key: str, *values: object) -> None:
        """A key that may be absent, or have one of the values under which the model is the one we have."""
        self.read.add(key)
        if key in self.data and self.data[key] not in values:
            allowed = " or ".join(repr(value) for value in values)
            self.problems.append(f"{key} = {self.data[key]!r}"[:100] + f" is not supported, only {allowed}")

    def activation(self, key: str) -> str:
        theirs = self.take(key, str)
        if theirs not in ACTIVATIONS:
            self.problems.append(f"{key} = {theirs[:60]!r} is not supported, only {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS.get(theirs, "gelu")

    def ignore(self, *keys: str) -> None:
        """Keys of this kind of model that change nothing it computes."""
        self.read.update(keys)

    def finish(self) -> list[str]:
        """All problems, each by its key; to be called once, when all keys were read."""
        self.expect("pruned_heads", {})
        self.expect("tie_encoder_decoder", False)
        unknown = [key for key in self.data if key not in self.read and key not in IRRELEVANT]
        told = [f"{shown(key)} = {str(self.data[key])[:60]!r} is not known" for key in unknown[:MANY]]
        more = [f"and {len(unknown) - MANY} more keys that are not known"] if len(unknown) > MANY else []
        return [*self.problems, *told, *more]
