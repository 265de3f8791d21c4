"""Tiny random twins: models of the reference library with a few thousand weights, saved, and loaded as ours.

Every parameter is drawn anew, since what still has its initial value (a bias of 0, a norm of 1) hides a mistake.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.nn.latents import fourier_features, spread_over
from regard.nn.positions import sinusoid
from tests.parity.ours import Inputs, Run, Tensors, at_real, entering, run, some
from tests.parity.references import DIM, FAMILIES, GRIDS, LENGTH, TIMM, TRANSLATORS, VOCAB, free, reference


def batch(case: str, *, length: int = 7, padding: str = "none", seed: int = 1) -> Tensors:
    """Inputs for a case. Padded rows have ``length``, about half of it, and one real token."""
    draw = torch.Generator().manual_seed(seed)
    if FAMILIES[case] in ("resnet", "detr"):
        return {"images": torch.randn(2, 1 if case == "resnet-basic" else 3, 20, 28, generator=draw)}
    if FAMILIES[case] == "perceiver":
        return {"images": torch.randn(3, 3, 6, 6, generator=draw)}
    if FAMILIES[case] in ("clip", "cliptext"):
        ids, keys = tokens(length, padding, draw)
        ids[:, 0] = 3 if length == 1 else 4  # the first end token counts, of which there may be more
        ids[0, -1] = ids[1, min(2, length - 1)] = ids[2, 0] = 3
        images = {"images": torch.randn(3, 3, 12, 12, generator=draw)} if FAMILIES[case] == "clip" else {}
        return images | {"ids": ids} | some(keys=keys)
    if FAMILIES[case] in GRIDS:
        lone = ("swin-timm-bare", "swinv2-timm-bare", "levit-one-channel", "levit-timm-alone")
        small = {"swin-wide": 16, "levit-one-channel": 32}
        side = small.get(case, 64 if FAMILIES[case] == "levit" else 12)
        return {"images": torch.randn(3, 1 if case in lone else 3, side, side, generator=draw)}
    if FAMILIES[case] == "volo":
        side = {"volo-wide": 24, "volo-one-head": 48}.get(case, 16)
        return {"images": torch.randn(3, 1 if case == "volo-wide" else 3, side, side, generator=draw)}
    if FAMILIES[case] in ("vit", "deit", "cait", "mixer"):
        channels = 1 if case.endswith(("-one-channel", "-named-bare", "cait-bare")) else 3
        side = 64 if "-named" in case else 8 if case == "mixer-one-channel" else 12
        return {"images": torch.randn(3, channels, side, side, generator=draw)}
    if FAMILIES[case] in TRANSLATORS:
        source, source_keys = tokens(length, padding, draw)
        target, keys = tokens(max(length - 2, 1), padding, draw)
        return {"source": source, "target": target} | some(source_keys=source_keys, keys=keys)
    if FAMILIES[case] == "reformer":  # its chunks count padding, so that is compared elsewhere, with texts alone
        return {"ids": tokens(LENGTH, "none", draw)[0]}
    ids, keys = tokens(length, padding, draw)
    knows = FAMILIES[case] == "bert" and "distil" not in case
    segments = {"segments": torch.randint(2, ids.shape, generator=draw)} if knows else {}
    return {"ids": ids} | segments | some(keys=keys)


def tokens(length: int, padding: str, draw: torch.Generator) -> tuple[Tensor, Tensor | None]:
    """(3, length), with padding where it is False: on the left, the right, or nowhere."""
    ids = torch.randint(2, VOCAB, (3, length), generator=draw)
    if padding == "none":
        return ids, None
    keys = torch.arange(length) < torch.tensor([length, (length + 1) // 2, 1])[:, None]
    keys = keys.flip(1) if padding == "left" else keys
    return ids.masked_fill(~keys, 0), keys


def row(inputs: Inputs, i: int) -> Tensors:
    """One row of a batch by itself, its padding cut off."""
    found = {}
    for name, x in inputs.items():
        keys = inputs.get("source_keys" if name.startswith("source") else "keys")
        if not name.endswith("keys"):
            found[name] = x[i : i + 1] if keys is None else x[i : i + 1, keys[i]]
    return found


def positions(keys: Tensor) -> Tensor:
    """Padding takes no position."""
    return (keys.cumsum(1) - 1).clamp(min=0)


def run_reference(case: str, model: nn.Module, inputs: Inputs) -> Run:
    """The reference's outputs and maps, under our names."""
    if FAMILIES[case] in GRIDS:
        return run_grid(case, model, inputs)
    if case in TIMM:
        return run_timm(FAMILIES[case], model, inputs)
    if FAMILIES[case] == "resnet":
        with entering(inputs) as entered:
            out = model(inputs["images"])
        logits, states = out.get("logits"), out.get("last_hidden_state")
        return Run(some(logits=logits, states=states), {}, entered)
    if FAMILIES[case].startswith("perceiver"):
        return run_perceiver(FAMILIES[case], model, inputs)
    blind = "fnet" in case  # it has no attention
    see = {} if blind else {"output_attentions": model.config._attn_implementation == "eager"}
    see |= {"output_hidden_states": True}
    family, keys = FAMILIES[case], inputs.get("keys")
    masks = {} if keys is None else {"attention_mask": keys.long()}
    places = {} if keys is None else {"position_ids": positions(keys)}
    if family in ("vit", "deit"):
        with entering(inputs) as entered:
            out = model(inputs["images"], interpolate_pos_encoding=True, **see)
        outputs = some(logits=out.get("logits"), states=out.get("last_hidden_state"), pooled=out.get("pooler_output"))
        outputs |= some(label=out.get("cls_logits"), teacher=out.get("distillation_logits"))
    elif family in ("clip", "cliptext"):
        return run_clip(model, inputs, masks)
    elif family == "detr":
        with entering(inputs) as entered:
            out = model(inputs["images"], **see)
        outputs = {"logits": out.logits, "boxes": out.pred_boxes}
    elif family in TRANSLATORS:
        masks = {} if keys is None else {"decoder_attention_mask": keys.long()}
        masks |= {"attention_mask": inputs["source_keys"].long()} if "source_keys" in inputs else {}
        tables = dict.fromkeys((model.get_encoder().embed_tokens, model.get_decoder().embed_tokens))  # or one for both
        with entering(inputs, *tables) as entered:
            out = model(input_ids=inputs["source"], decoder_input_ids=inputs["target"], **masks, **see)
        outputs = {"memory": out.encoder_last_hidden_state, "logits": out.logits}
    elif family == "reformer":
        mend(model)
        with entering(inputs, model.get_input_embeddings()) as entered, hashed_alike(), asked(model) as calls:
            out = model(inputs["ids"], use_cache=False)
        outputs = some(logits=out.get("logits"), states=out.get("last_hidden_state"))
        return Run(outputs, {place: shown(*call) for place, call in calls.items()}, entered)
    else:
        segments = {"token_type_ids": inputs["segments"]} if "segments" in inputs else {}
        places = {} if "distil" in case else places
        if blind and keys is not None:
            raise ValueError("it transforms the padding along: compare row by row")
        with entering(inputs, model.get_input_embeddings()) as entered:
            out = model(inputs["ids"], **segments, **masks, **places, **see)
        outputs = {"logits": out.logits} if family == "gpt" else of_bert(model, out)
    return Run(at_real(outputs, inputs), at_real(maps_of(out), inputs, rows=-2), entered)


def run_clip(model: nn.Module, inputs: Inputs, masks: Inputs) -> Run:
    """Both towers, or the one that reads. The embeddings of the whole are taken before they are normalised."""
    see = {"output_attentions": model.config._attn_implementation == "eager"}
    if "images" not in inputs:
        with entering(inputs, model.get_input_embeddings()) as entered:
            out = model(inputs["ids"], **masks, **see)
        embeddings = some(embedding=out.get("text_embeds"), pooled=out.get("pooler_output"))
        outputs = {"states": out.last_hidden_state} | embeddings
        maps = {f"blocks.{i}.mixer": x.detach() for i, x in enumerate(out.get("attentions") or ())}
        return Run(at_real(outputs, inputs), at_real(maps, inputs, rows=-2), entered)
    with entering(inputs) as entered:
        out = model(inputs["ids"], inputs["images"], **masks)
        image, text = (
            model.get_image_features(inputs["images"], **see),
            model.get_text_features(inputs["ids"], **masks, **see),
        )
    outputs = {"logits": out.logits_per_image, "image": image.pooler_output, "text": text.pooler_output}
    maps: Tensors = {}
    for name, tower in (("image", image), ("text", text)):
        maps |= {f"{name}.blocks.{i}.mixer": x.detach() for i, x in enumerate(tower.get("attentions") or ())}
    return Run(outputs, at_real(maps, inputs, rows=-2), entered)


def run_timm(family: str, model: nn.Module, inputs: Inputs) -> Run:
    """Its maps are what its attentions drop some weights of."""
    maps: Tensors = {}
    handles = []
    for place, module in model.named_modules():
        if place.endswith(".attn_drop"):

            def keep(module: nn.Module, given: Any, weights: Tensor, place: str = place) -> None:
                whole = overlapped(weights) if weights.ndim == 5 else weights
                maps[ours_of(place.removesuffix(".attn.attn_drop"), model)] = whole.detach()

            handles.append(module.register_forward_hook(keep))
    with entering(inputs) as entered:
        states = model.forward_features(inputs["images"])
        logits = model.forward_head(states)
    for handle in handles:
        handle.remove()
    outputs = {"states": states, "logits": logits}
    if family in ("vit", "cait", "volo"):
        outputs.pop("states" if model.num_classes else "logits")
    elif family == "deit" and model.num_classes:
        outputs = {"logits": logits, "label": model.head(states[:, 0]), "teacher": model.head_dist(states[:, 1])}
    return Run(outputs, maps, entered)


def ours_of(block: str, model: nn.Module) -> str:
    """network.3.1 of VOLO is the second block of its third stage; the transformer's begin with the fourth part."""
    stack, _, i = block.rpartition(".")
    if stack.startswith("network.") and stack != "network.0":
        before = [len(stage) for stage in list(model.network)[2 : int(stack.removeprefix("network."))]]
        return f"blocks.{sum(before) + int(i)}.mixer"
    names = {"network.0": "outlookers", "post_network": "looks", "blocks_token_only": "looks"}
    return f"{names.get(stack, stack)}.{i}.mixer"


@torch.no_grad()
def overlapped(local: Tensor) -> Tensor:
    """The map of outlook attention: what its windows, a stride of 2 apart, make of values that are 1 at one place."""
    b, heads, windows = local.shape[:3]
    side = 2 * int(windows**0.5)
    ones = torch.eye(side**2).to(local).view(1, side**2, side, side)
    cut = F.unfold(ones, 3, padding=1, stride=2).view(side**2, 9, windows)
    seen = torch.einsum("bhwij,ajw->bhaiw", local, cut).flatten(0, 1).flatten(1, 2)
    return F.fold(seen, (side, side), 3, padding=1, stride=2).view(b, heads, side**2, side**2).mT


def run_perceiver(family: str, model: nn.Module, inputs: Inputs) -> Run:
    """Its words are for all places that there could be; a layer that was run several times has a map for each."""
    keys = inputs.get("keys")
    masks = {} if keys is None else {"attention_mask": keys.long()}
    lm = family == "perceiverlm"
    table = model.perceiver.input_preprocessor.embeddings if lm else None
    with entering(inputs, table) as entered:
        out = model(inputs["ids" if lm else "images"], output_attentions=True, **masks)
    logits = out.logits[:, : inputs["ids"].shape[1]] if lm else out.logits
    cross, decoder = (x.detach() for x in out.cross_attentions)
    decoder = decoder[:, :, : inputs["ids"].shape[1]] if lm else decoder
    depth, maps = len(model.perceiver.encoder.self_attends), {}
    for i, x in enumerate(out.attentions):
        maps[f"latents.blocks.{i % depth}.mixer" + f" {i // depth}" * (i >= depth)] = x.detach()
    return Run(
        at_real({"logits": logits}, inputs),
        maps | {"latents.cross.look": cross} | at_real({"decoder.look": decoder}, inputs, rows=-2),
        entered,
    )


def run_grid(case: str, model: nn.Module, inputs: Inputs) -> Run:
    """Of windows there is a map each; what they do not give is heard where they take a softmax, layer by layer."""
    forget(model)
    with entering(inputs) as entered, softmaxed() as heard:
        if case in TIMM:
            states = model.forward_features(inputs["images"])
            pooled = model.forward_head(states)
            states = states.flatten(1, 2) if states.ndim == 4 else states
            outputs = {"logits": pooled} if model.num_classes else {"states": states, "pooled": pooled}
        else:
            out = model(inputs["images"])
            outputs = some(
                logits=out.get("logits"), states=out.get("last_hidden_state"), pooled=out.get("pooler_output")
            )
    forget(model)
    return Run(outputs, dict(zip(layers(case, model), heard, strict=True)) if heard else {}, entered)


def layers(case: str, model: nn.Module) -> list[str]:
    """The names of our attentions in the order in which they look."""
    stages = getattr(model, "layers", None) or getattr(model, "stages", None)
    depths = model.config.depths if case not in TIMM else [len(stage.blocks) for stage in stages]
    found = []
    for stage, depth in enumerate(depths):
        found += [f"stages.{stage}.shrink.look.attention"] if stage and FAMILIES[case] == "levit" else []
        found += [f"stages.{stage}.blocks.{i}.mixer.attention" for i in range(depth)]
    return found


def forget(model: nn.Module) -> None:
    """LeViT's biases, which theirs keep from the first run on, whatever becomes of the weights."""
    for module in model.modules():
        if hasattr(module, "attention_bias_cache"):
            module.attention_bias_cache = {}


@contextmanager
def softmaxed() -> Iterator[list[Tensor]]:
    """Whatever is the result of a softmax."""
    plain, heard = Tensor.softmax, list[Tensor]()

    def told(x: Tensor, *how: Any, **named: Any) -> Tensor:
        y = plain(x, *how, **named)
        heard.append(y.detach())
        return y

    Tensor.softmax = told  # type: ignore[assignment, method-assign]
    try:
        yield heard
    finally:
        Tensor.softmax = plain  # type: ignore[method-assign]


def mend(model: nn.Module) -> None:
    """A fault of this version: the penalty for looking at oneself is so large that beside it float32 cannot tell how
    many rounds there were."""
    for name, buffer in model.named_buffers():
        if "self_mask_value" in name:
            buffer.fill_(-30.0)


@contextmanager
def hashed_alike() -> Iterator[None]:
    """It draws its directions in the precision at hand, which are other numbers; here always in float32."""
    draw = torch.randn

    def drawn(*size: Any, dtype: torch.dtype | None = None, **how: Any) -> Tensor:
        return draw(*size, **how).to(dtype)

    torch.randn = drawn  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.randn = draw


@contextmanager
def asked(model: nn.Module) -> Iterator[dict[str, Any]]:
    """What each attention of a Reformer was given."""
    calls, handles = {}, []
    for i, layer in enumerate(model.base_model.encoder.layers):

        def keep(module: nn.Module, given: Any, how: Any, place: str = f"blocks.{i}.mixer") -> None:
            calls.setdefault(place, (module, dict(how)))

        handles.append(layer.attention.self_attention.register_forward_pre_hook(keep, with_kwargs=True))
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


class Given(nn.Module):
    def __init__(self, y: Tensor) -> None:
        super().__init__()
        self.y = y

    def forward(self, x: Tensor) -> Tensor:
        return self.y


@torch.no_grad()
def shown(layer: nn.Module, how: dict[str, Any]) -> Tensor:
    """The map of an attention that keeps its weights in chunks: what it makes of values that are 1 at one key."""
    x = how["hidden_states"]
    (b, n, _), heads, width = x.shape, layer.num_attention_heads, layer.attention_head_size
    project, found = layer.value, []
    for first in range(0, n, width):
        values = torch.zeros(b, n, heads, width).to(x)
        for j in range(first, min(first + width, n)):
            values[:, j, :, j - first] = 1.0
        layer.value = Given(values.flatten(2))
        with hashed_alike():
            y = layer(**how).hidden_states
        layer.value = project
        found.append(y.view(b, n, heads, width).transpose(1, 2))
    return torch.cat(found, -1)[..., :n]


def of_bert(model: nn.Module, out: Any) -> Tensors:
    """Its pooled state is among the outputs of the bare encoder alone; of a larger model we ask the pooler."""
    states, kind = out.hidden_states[-1], type(model).__name__
    first, pooler = states[:, 0], getattr(model.base_model, "pooler", None)
    pooled = None if pooler is None else pooler(first).tanh() if "Albert" in kind else pooler(states)
    pooled = model.pre_classifier(first).relu() if hasattr(model, "pre_classifier") else pooled
    logits, follows = out.get("logits"), out.get("seq_relationship_logits", out.get("sop_logits"))
    follows = logits if kind.endswith("NextSentencePrediction") else follows
    words = out.get("prediction_logits", logits if kind.endswith("MaskedLM") else None)
    return {"states": states} | some(
        pooled=pooled,
        words=words,
        follows=follows,
        label=logits if kind.endswith("SequenceClassification") else None,
        tags=logits if kind.endswith("TokenClassification") else None,
        span=torch.stack((out.start_logits, out.end_logits), -1) if "start_logits" in out else None,
    )


def maps_of(out: Any) -> Tensors:
    places = {
        "attentions": "blocks.{}.mixer",
        "encoder_attentions": "encoder.{}.mixer",
        "decoder_attentions": "decoder.{}.mixer",
        "cross_attentions": "decoder.{}.cross",
    }
    return {place.format(i): x.detach() for key, place in places.items() for i, x in enumerate(out.get(key) or ())}


# ------------------------------------------------------------------------------------------------ between the two


def saved(model: nn.Module, folder: Path, **how: Any) -> Path:
    if not hasattr(model, "save_pretrained"):
        import timm

        timm.models.save_for_hf(model, folder, model_args=model.args, safe_serialization=True)
        return folder
    model.save_pretrained(folder, **how)
    return folder


def gradients(model: nn.Module, folder: Path) -> Tensors:
    """The reference's gradients under our names: saved as if they were its weights, and read by the same rules."""
    carrier = copy.deepcopy(model)
    for ours, theirs in zip(free(carrier).values(), free(model).values(), strict=True):
        ours.data = torch.zeros_like(theirs) if theirs.grad is None else theirs.grad.clone()
    return regard.load(saved(carrier, folder)).state_dict()


@dataclass(frozen=True, eq=False)
class Pair:
    """The reference and ours, with the same weights."""

    case: str
    theirs: nn.Module
    ours: nn.Module

    @property
    def family(self) -> str:
        return FAMILIES[self.case]

    def double(self) -> "Pair":
        """In float64. Where the reference's eager attention leaves it (ViT's softmax), its fused one does not.

        Waves are in float32 on both sides, rounded differently: here they are ours, and compared elsewhere.
        """
        for buffer in self.theirs.buffers():
            buffer.requires_grad_(False)  # a cast of it would be no leaf
        theirs = copy.deepcopy(self.theirs).double()
        if self.family in ("vit", "deit", "swin", "clip", "cliptext") and self.case not in TIMM:
            theirs.set_attn_implementation("sdpa")
        if self.family == "perceiver" and self.ours.config.positions == "fourier":
            before = theirs.perceiver.input_preprocessor.position_embeddings

            def exact(grid: Any, batch_size: int, device: torch.device, dtype: torch.dtype) -> Tensor:
                found = fourier_features(spread_over(tuple(grid), device, dtype), before.num_bands, 224)
                return found.expand(batch_size, -1, -1)

            before.forward = exact
        if self.family == "transformer":
            for stack in (theirs.get_encoder(), theirs.get_decoder()):
                table = stack.embed_positions.weight
                table.data = sinusoid(torch.arange(len(table), device=table.device), DIM, "halves").to(table)
        return Pair(self.case, theirs, copy.deepcopy(self.ours).double())

    def gradients(self, inputs: Inputs, folder: Path) -> tuple[Tensors, Tensors]:
        """Of all parameters and of what went in, ours and theirs, under our names."""
        found = []
        for net, go in ((self.ours, self.run_ours), (self.theirs, self.run_theirs)):
            for x in free(net).values():
                x.requires_grad_().grad = None
            mine = {name: x.detach().requires_grad_() if name == "images" else x for name, x in inputs.items()}
            passed = go(mine)
            passed.backward()
            found.append({f"entered.{i}": x.grad for i, x in enumerate(passed.entered)})
        ours = {name: x.grad for name, x in self.ours.named_parameters()}
        learned = gradients(self.theirs, folder)  # and what batch norms remember, which has no gradient
        theirs = {name: x.to(ours[name]) for name, x in learned.items() if name in ours}
        return ours | found[0], theirs | found[1]

    def run_ours(self, inputs: Inputs) -> Run:
        return run(self.family, self.ours, inputs)

    def run_theirs(self, inputs: Inputs) -> Run:
        return run_reference(self.case, self.theirs, inputs)


def paired(case: str, folder: Path, device: torch.device | str = "cpu") -> Pair:
    model = reference(case)
    return Pair(case, model.to(device), regard.load(saved(model, folder)).net.to(device))
