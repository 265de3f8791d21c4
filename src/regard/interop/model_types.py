"""The ``model_type`` of a foreign config that does not say it, as older files do not."""

from collections.abc import Collection, Mapping
from typing import Any

# The names of classes begin so, and go on with what stands in GOES_ON.
CLASSES = {
    "Bert": "bert",
    "Albert": "albert",
    "DistilBert": "distilbert",
    "FNet": "fnet",
    "GPT2": "gpt2",
    "OpenAIGPT": "openai-gpt",
    "Llama": "llama",
    "Mistral": "mistral",
    "Qwen2": "qwen2",
    "T5": "t5",
    "SwitchTransformers": "switch_transformers",
    "Reformer": "reformer",
    "Perceiver": "perceiver",
    "ViT": "vit",
    "DeiT": "deit",
    "ResNet": "resnet",
    "Detr": "detr",
    "Swin": "swin",
    "Swinv2": "swinv2",
    "Levit": "levit",
    "Marian": "marian",
    "Blenderbot": "blenderbot",
    "Starcoder2": "starcoder2",
    "CLIP": "clip",
    "CLIPText": "clip_text_model",
}
GOES_ON = ("For", "Model", "LMHead", "DoubleHeads", "MT", "Encoder")
PREFIXES = {"bert.": "bert", "albert.": "albert", "distilbert.": "distilbert"}  # of tensors


def with_model_type(data: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
    """The config with its kind: told by the class that the weights were saved from, or by how its tensors are called.
    Names that several kinds have tell nothing."""
    if data.get("model_type") is not None or "architecture" in data:
        return data
    told = data.get("architectures")
    architecture = str(told[0]) if isinstance(told, list) and told else ""
    for start, kind in CLASSES.items():
        if architecture.startswith(tuple(start + more for more in GOES_ON)):
            return {**data, "model_type": kind}
    found = {kind for prefix, kind in PREFIXES.items() if any(name.startswith(prefix) for name in names)}
    return data if architecture or len(found) != 1 else {**data, "model_type": found.pop()}
