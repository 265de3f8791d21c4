"""Every family in small: its config, batches, padding, the future, maps, save and load, and that it learns."""

import inspect
import json
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import tomlkit
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.building import prepare
from regard.errors import ConfigError
from regard.folders import load, save
from regard.modalities.verb_table import VERBS
from regard.model import Model
from regard.models.family import Family
from regard.models.probing import as_floats, logits_of, random_inputs, tensors
from regard.nn.cache import Cache
from regard.nn.config import parse
from regard.nn.tap import capture
from regard.zoo import FAMILIES, config_data, empty_net, read_config

from .report import BrokenError, Contract, NothingError, demand, demand_close
from .samples import stirred

STEPS = 300  # at most, to learn one batch by heart


def inputs(row: Family, config: Any, batch: int = 3, n: int = 6) -> dict[str, Tensor]:
    try:
        return random_inputs(row, config, batch, n)
    except ValueError as error:
        raise BrokenError(str(error)) from None


def words(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inputs that are ids of tokens."""
    return {name: x for name, x in given.items() if not x.is_floating_point() and x.ndim == 2}


def sequences(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inputs that have one value a position, (b, n), and so may be padded."""
    return {name: x for name, x in given.items() if x.ndim == 2}


def other_values(x: Tensor, vocab: int) -> Tensor:
    return x + 5 if x.is_floating_point() else (x + 5) % vocab


def small(row: Family) -> nn.Module:
    return stirred(row.net(row.example())).eval()


def through_files(family: str, config: Any) -> None:
    data = config_data(config)
    for kind, back in (("JSON", json.loads(json.dumps(data))), ("TOML", tomllib.loads(tomlkit.dumps(data)))):
        found = read_config(family, back, "")
        demand(found == config, f"the {kind} round trip returns {found}, expected {config}")


def presets_built(family: str, row: Family) -> None:
    for name, config in row.presets.items():
        demand(
            isinstance(config, row.config),
            f"the preset {name} is a {type(config).__name__}, expected a {row.config.__name__}",
        )
        through_files(family, config)
        empty_net(family, config)


def bad_keys(family: str, row: Family) -> None:
    good = config_data(row.example())
    for key in good:
        try:
            read_config(family, good | {f"{key}x": 1}, "")
        except ConfigError as error:
            demand(f"{key}x" in error.got, f"the error does not name the unknown key {key}x: {error.got}")
        else:
            raise BrokenError(f"the unknown key {key}x is accepted")
    try:
        parse(row.config, good)
    except ValueError as error:
        raise BrokenError(f"the family's own example config is rejected: {error}") from None


def saved_and_loaded(family: str, row: Family, config: Any) -> None:
    net = row.net(config).eval()
    given = as_floats(inputs(row, config))
    wanted = tensors(net(**given))
    with tempfile.TemporaryDirectory() as folder:
        save(Model(family, net), Path(folder) / "model")
        again = load(Path(folder) / "model")
    demand(again.family == family, f"saved as {family} but loaded as {again.family}")
    unsaved = [name for name, x in again.net.named_buffers() if x.is_meta]
    demand(
        not unsaved,
        f"after save and load these buffers have no values: {', '.join(unsaved)}; they are registered with "
        "persistent=False, so no file has them. Compute such a tensor in forward, or save it (persistent=True)",
    )
    for name, x in tensors(again.net(**given)).items():
        demand_close(x, wanted[name], f"the output {name or 'tensor'} after save and load", "the original output", 1e-6)


def repeated(row: Family) -> None:
    net, given = small(row), inputs(row, row.example())
    one, two = tensors(net(**given)), tensors(net(**given))
    for name, x in one.items():
        demand(torch.equal(x, two[name]), f"two identical calls return {name or 'outputs'} that are not bit-identical")


def one_of_many(net: nn.Module, given: Mapping[str, Tensor]) -> None:
    many = tensors(net(**given))
    for row in range(len(next(iter(given.values())))):
        one = tensors(net(**{name: x[row : row + 1] for name, x in given.items()}))
        for part in many:
            what = f"row {row} of the output {part or 'tensor'}, run as a batch of one"
            demand_close(one[part][0], many[part][row], what, "the same row in the full batch")


def padded(net: nn.Module, given: Mapping[str, Tensor], side: str, vocab: int) -> None:
    """Whatever stands there; every input may be padded, all at once."""
    keys = {}
    for part, x in sequences(given).items():
        places, lengths = torch.arange(x.shape[1]), torch.tensor((4, 6, 1))[:, None]
        keys[part] = places < lengths if side == "right" else places >= x.shape[1] - lengths
    last = list(given)[-1]  # the one that the output follows; others are named, as source_keys
    masks = {"keys" if part == last else f"{part}_keys": x for part, x in keys.items()}
    found = tensors(net(**given, **masks))
    for row in range(3):
        own = {part: x[row : row + 1] for part, x in given.items()}
        alone = tensors(net(**own | {part: own[part][:, keys[part][row]] for part in keys}))
        for part, x in alone.items():
            along = found[part][row]
            what = f"row {row} of the output {part or 'tensor'} with {side} padding"
            along = along if along.shape == x[0].shape else along[keys[last][row]]
            demand_close(along, x[0], what, "the same row without padding", 1e-9)
    garbage = {**given} | {
        part: torch.where(keys[part], x, other_values(x, vocab)) for part, x in sequences(given).items()
    }
    for part, x in tensors(net(**garbage, **masks)).items():
        same, before = (x[keys[last]], found[part][keys[last]]) if x.shape[:2] == keys[last].shape else (x, found[part])
        demand_close(
            same, before, f"with other tokens in the {side} padding, the unpadded output", "the original output"
        )


def no_future(row: Family, vocab: int) -> None:
    """Of a net that goes on with a text."""
    net, ids = small(row), ids_of(row)
    y = logits_of(row, net(ids))
    for i in range(ids.shape[1] - 1):
        later = torch.arange(ids.shape[1]) > i
        moved = logits_of(row, net(torch.where(later, (ids + 5) % vocab, ids)))
        what = f"with the tokens after position {i} changed, the logits up to it"
        demand_close(moved[:, : i + 1], y[:, : i + 1], what, "the original logits", 1e-9)


def cached(row: Family) -> None:
    net, ids = small(row), ids_of(row)
    full, cache, parts = logits_of(row, net(ids)), Cache(), list[Tensor]()
    for i in range(ids.shape[1]):
        parts.append(logits_of(row, net(ids[:, i : i + 1], cache=cache)))
    demand_close(
        torch.cat(parts, 1), full, "the output of token-by-token decoding with a cache", "the full forward pass", 1e-8
    )


def looked_at(row: Family) -> None:
    net, given = small(row), inputs(row, row.example())
    plain = tensors(net(**given))
    try:
        with capture(net, "*") as seen:
            looked = tensors(net(**given))
    except KeyError:
        raise NothingError("no taps") from None
    for part, x in plain.items():
        demand_close(
            looked[part], x, f"the output {part or 'tensor'} while capturing", "the output without capturing", 1e-6
        )
    for name, records in seen.items():
        if name.endswith(".weights"):
            place = name.removesuffix(".weights")
            values, mixed = seen.get(f"{place}.values"), seen.get(f"{place}.mixed")
            if values and mixed and records[0].shape[-3] == values[0].shape[-3]:
                what = f"the mixed output of the heads of {place}"
                demand_close(mixed[0], records[0] @ values[0], what, "their recorded weights @ values", 1e-6)


def learned(row: Family, config: Any, steps: int, enough: float = 0.0) -> tuple[float, float]:
    """The loss on one batch, before and after so many steps, or once it is below this share of the first."""
    net, given = row.net(config).train(), as_floats(inputs(row, config))
    optimizer, losses = torch.optim.Adam(net.parameters(), lr=1e-2), list[float]()

    first = logits_of(row, net(**given))
    labels = torch.randint(first.shape[-1], first.shape[:-1])
    for _ in range(steps):
        loss = F.cross_entropy(logits_of(row, net(**given)).flatten(0, -2), labels.flatten())
        losses.append(loss.item())
        if losses[-1] < enough * losses[0]:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses[0], losses[-1]


def overfits(row: Family) -> None:
    still = {one.name: 0.0 for one in fields(row.config) if "drop" in one.name}
    start, end = learned(row, replace(row.example(), **still), STEPS, 0.05)
    demand(
        end < 0.05 * start, f"in {STEPS} steps on one batch the loss went from {start:.3g} to {end:.3g}, not below 5%"
    )


def prepared(family: str, row: Family) -> None:
    net, given = small(row), inputs(row, row.example())
    wanted, twin = tensors(net(**given)), prepare(Model(family, net)).net
    for name, x in tensors(twin(**given)).items():
        demand_close(x, wanted[name], f"the output {name or 'tensor'} after prepare()", "the original output")


def contracts(family: str) -> Iterator[Contract]:
    row = FAMILIES[family]
    config, accepted = row.example(), inspect.signature(row.net.forward).parameters  # type: ignore[attr-defined]
    yield Contract("the example config survives a JSON and TOML round trip", partial(through_files, family, config))
    yield Contract("presets survive a file round trip and can be built", partial(presets_built, family, row))
    yield Contract("an unknown config key is rejected by name", partial(bad_keys, family, row))
    yield Contract("a model can be saved and loaded", partial(saved_and_loaded, family, row, config))
    yield Contract("identical calls give bit-identical outputs", partial(repeated, row))
    yield Contract(
        "a batch of one equals its row in a larger batch", lambda: one_of_many(small(row), inputs(row, config))
    )
    for side in ("left", "right") if "keys" in accepted else ():
        says = f"{side} padding does not change unpadded outputs"
        yield Contract(says, lambda s=side: padded(small(row), inputs(row, config), s, row.get(config, "vocab") or 0))  # type: ignore[misc]
    if writes_on(row):
        yield Contract(
            "causality: no output depends on later tokens",
            lambda: no_future(row, config.vocab),
        )
        if "cache" in accepted:
            yield Contract("decoding with a cache equals the full forward pass", lambda: cached(row))
    yield Contract(
        "capturing does not change outputs, and the captured weights @ values equal the mixed output",
        partial(looked_at, row),
    )
    yield Contract("outputs are unchanged after prepare()", partial(prepared, family, row))
    yield Contract("it can overfit one batch", partial(overfits, row))


def writes_on(row: Family) -> bool:
    """Whether it goes on with its input, so that no output may depend on what comes later."""
    return any(name in VERBS and VERBS[name].causal for name in row.verbs(row.example(), None))


def ids_of(row: Family) -> Tensor:
    return next(iter(words(inputs(row, row.example())).values()))
