"""One process of a test that needs several: python -m tests.train.worker WHAT FOLDER, under torchrun.

It writes what it found into the folder, for the test to compare.
"""

import copy
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from regard.cli.app import leave
from regard.cli.app import main as command_line
from regard.data.loader import Maker
from regard.errors import InputError
from regard.modalities.goals import GOALS
from regard.modalities.sources import SOURCES
from regard.modalities.text.pairs import Pairs
from regard.modalities.text.tasks.language import Language
from regard.modalities.text.tasks.translation import Feeding, Translate
from regard.models import rnn, switch, switchlm, transformer, vit
from regard.nn.block import replay_blocks
from regard.nn.switch import expert_weights, gather_experts, spread_experts, switch_layers
from regard.nn.tap import capture
from regard.run.templates import run_template
from regard.tasks.classify import Classify, ClassifyBatch
from regard.tasks.task import Task
from regard.train.checkpoint import Checkpoint, Checkpoints
from regard.train.distribution import World, add_gradients, join_world, shard
from regard.train.engine import Engine
from regard.zoo import FAMILIES
from tests.train import toymodality
from tests.train.toys import Counting, engine, tiny_gpt


def whole(x: torch.Tensor) -> torch.Tensor:
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().clone().contiguous()


def curve(folder: Path, world: World, kind: str) -> None:
    """Twenty steps."""
    trained = engine(folder / "run", world=world, distribution=kind, steps=20, log=1, evaluate=10, save=10, keep=9)
    trained.run()
    weights = {name: whole(x) for name, x in trained.task.parts["net"].state_dict().items()}
    if world.first:
        save_file(weights, folder / "weights.safetensors")


def routing() -> Task:
    """A language model with experts, of which nothing is dropped."""
    torch.manual_seed(3)
    sizes = {"vocab": 17, "length": 16, "dim": 16, "depth": 2, "heads": 2, "hidden": 32, "experts": 4, "every": 1}
    still = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0, "jitter": 0.0}
    return Language(switchlm.SwitchLM(switchlm.Config(**sizes, **still, capacity=100.0)))


def routed(folder: Path, world: World, kind: str) -> None:
    """Ten steps, a moving average beside them; or if there is a checkpoint, what it gives, and one step more."""
    settings = {"steps": 10, "log": 1, "evaluate": 5, "save": 5, "keep": 9, "moving": 0.9}
    trained = engine(folder / "run", routing(), world=world, distribution=kind, **settings)
    step = trained.resume()
    norm = 0.0
    if step:
        update = trained.update(step, Maker(trained.data, world.rank, world.size, 1, 0).pieces(step))
        norm = update.norms["norm"]
    else:
        trained.run()
    weights = {name: whole(x) for name, x in trained.task.parts["net"].state_dict().items()}
    weights |= {f"moving.{name}": whole(x) for name, x in trained.shadows["net"].weights.items()}
    local = [x for name, x in trained.task.parts["net"].named_parameters() if isinstance(x, DTensor)]
    assert all(len(x.to_local()) == 4 // world.size for x in local)
    assert len(local) == (4 if world.size > 1 else 0)
    if world.first:
        save_file(weights | {"norm": torch.tensor(norm)}, folder / f"routed-{step}-{world.size}.safetensors")


def resume(folder: Path, world: World, kind: str) -> None:
    """What a checkpoint gives on this many processes, and that training goes on from it."""
    trained = engine(folder / "run", world=world, distribution=kind, steps=30, log=1, evaluate=10, save=10, keep=9)
    step = trained.resume()
    weights = {name: whole(x) for name, x in trained.task.parts["net"].state_dict().items()}
    state = trained.optimizers["net"].state
    named = dict(trained.task.parts["net"].named_parameters())
    moments = {f"moment.{name}": whole(state[x]["exp_avg"]) for name, x in named.items()}
    update = trained.update(step, Maker(trained.data, world.rank, world.size, 1, 0).pieces(step))
    if world.first:
        save_file(weights | moments, folder / f"resumed-{world.size}.safetensors")
        (folder / f"resumed-{world.size}.json").write_text(json.dumps({"step": step, **update.sums, **update.norms}))


def gradient(folder: Path, world: World, kind: str) -> None:
    """Of one ragged batch, in float64."""
    task = Language(tiny_gpt().double())
    trained = engine(folder / "run", task, Counting(budget=90), world=world, distribution=kind)
    found: dict[str, torch.Tensor] = {}
    original = trained.clip

    def keep(parameters: list[torch.Tensor], norm: torch.Tensor) -> None:
        found.update({name: whole(x.grad) for name, x in task.net.named_parameters() if x.grad is not None})
        original(parameters, norm)

    trained.clip = keep  # type: ignore[method-assign]
    trained.update(2, Maker(trained.data, world.rank, world.size, 2, 0).pieces(2))
    if world.first:
        save_file(found, folder / f"gradient-{kind}-{world.size}.safetensors")


def nets(folder: Path, world: World, kind: str) -> None:
    """Nets with their weights shared out: what they say, show and learn is what they would with all of them."""
    torch.manual_seed(3)  # the same nets in every process
    sizes = {"vocab": 11, "dim": 8, "depth": 2, "heads": 2, "hidden": 16}
    small = {"vocab": 11, "dim": 8, "hidden": 8, "align": 8, "maxout": 8}
    translator = transformer.Transformer(transformer.Config(**sizes, norm="pre", output_bias=True, dropout=0.0))
    text: Any = SimpleNamespace(decode=str)
    ids = torch.randint(1, 11, (4, 3 + 2 * world.rank), generator=torch.Generator().manual_seed(world.rank))
    pairs = Pairs(ids.flip(1), None, ids, ids.flip(0), ids > 2)  # of another length in every process
    images = ClassifyBatch(torch.randn(3, 1, 8, 8), torch.tensor([0, 1, 2]))
    sights = {"image": 8, "patch": 4, "channels": 1, "classes": 3, "dim": 8, "depth": 2, "heads": 2, "hidden": 16}
    seer = vit.ViT(vit.Config(**sights, representation=8))
    torch.nn.init.normal_(seer.head.weight)  # it starts at zero
    cases: list[tuple[Callable[[torch.nn.Module], Task], torch.nn.Module, Any, tuple[Any, ...]]] = []
    if kind == "one":
        cases.append((lambda net: Language(net), tiny_gpt(), Counting().collate([0, 1 + world.rank], 0), (ids,)))
        cases.append((lambda net: Classify(net, "abc"), seer, images, (images.inputs,)))
    routing = {"experts": 2, "every": 1, "jitter": 0.0, "dropout": 0.0}
    writer = switchlm.Config(**sizes, **routing, length=16, attention_dropout=0.0, embedding_dropout=0.0)
    router = switch.SwitchTransformer(switch.Config(**sizes, **routing))
    if kind == "experts":
        cases.append((lambda net: Language(net), switchlm.SwitchLM(writer), Counting().collate([0], 0), (ids,)))
        cases.append((lambda x: Translate(x, text, 0.1), router, pairs, (ids, ids)))
    feeding = {"fed": Feeding(), "feeds itself": Feeding(0.5)}.get(kind)
    if feeding is not None:
        for net in (translator, *(rnn.RNNTranslator(rnn.Config(**small, decoder=x)) for x in ("bahdanau", "luong"))):
            cases.append((lambda x: Translate(x, text, 0.1, feeding), net, pairs, (ids, ids)))
    assert cases
    for task_of, net, batch, given in cases:
        shared = copy.deepcopy(net)
        shard(shared, world)
        found = []
        for task, part in ((task_of(net), net), (task_of(shared), shared)):
            torch.manual_seed(5)
            part.zero_grad()
            next(iter(task.losses(batch, 0))).terms["loss"].sum.backward()
            with torch.no_grad():
                found_too = part(*given)
                told = {**task.evaluate(batch), "logits": getattr(found_too, "logits", found_too)}
            found.append((told, task.show(batch)))
        add_gradients(net.parameters(), world)
        (one, shown), (two, shown_too) = found
        assert shown == shown_too
        for name, x in one.items():
            torch.testing.assert_close(two[name], x)
        shared.state_dict()  # its weights are shares again
        for (name, x), y in zip(net.named_parameters(), shared.parameters(), strict=True):
            torch.testing.assert_close(whole(y.grad), x.grad, rtol=1e-4, atol=1e-5, msg=name)


def experts(folder: Path, world: World, kind: str) -> None:
    """One batch by one process, then by all of them, each with some rows and some experts: the same, to rounding."""
    torch.manual_seed(3)  # the same in every process
    sizes = {"vocab": 11, "dim": 8, "depth": 2, "heads": 2, "head_dim": 4, "hidden": 16, "experts": 8, "dropout": 0.0}
    gated = {"gated": kind == "gated", "every": 1 if kind == "gated" else 2}
    capacity = 0.5 if kind == "dropping" else 8.0
    net = switch.SwitchTransformer(switch.Config(**sizes, **gated, jitter=0.0, capacity=capacity)).double().train()
    with torch.no_grad():
        for x in net.parameters():
            x.add_(0.3 * torch.randn_like(x))
    source, target = torch.randint(11, (4, 12)), torch.randint(11, (4, 12))
    lengths = torch.tensor([12, 7, 11, 3] if kind != "idle" else [12, 7, 0, 0])
    keys = {"source_keys": torch.arange(12) < lengths[:, None], "keys": torch.arange(12) < (lengths - 2)[:, None]}
    toward, alpha = torch.randn(4, 12, 11).double(), 3.0
    parallel = copy.deepcopy(net)
    for layer in switch_layers(net):
        layer.groups = world.size if kind == "dropping" else 1  # as each process counts its own
    with capture(net, "*.routes") as seen:
        one = net(source, target, **keys)
    used = [set(calls[0].argmax(-1).tolist()) for calls in seen.values()]
    assert all(len(own) > 2 for own in used), used
    ((one.logits * toward)[keys["keys"]].sum() + alpha * one.load).backward()
    assert bool(one.dropped) == (kind == "dropping")
    if kind == "replayed":
        replay_blocks(parallel)
    spread_experts(parallel, world.rank, world.size)
    own = slice(world.rank * 4 // world.size, (world.rank + 1) * 4 // world.size)
    mine = {name: x[own] for name, x in keys.items()}
    some = parallel(source[own], target[own], **mine)
    share = mine["keys"].sum() / keys["keys"].sum()  # as a task weighs it, so that the processes' parts add up to one
    ((some.logits * toward[own])[mine["keys"]].sum() + alpha * some.load * share).backward()
    apart = {id(x) for x in expert_weights(parallel)}
    add_gradients([x for x in parallel.parameters() if id(x) not in apart], world)
    torch.testing.assert_close(some.logits[mine["keys"]], one.logits[own][mine["keys"]])
    torch.testing.assert_close(some.load, one.load)
    assert world.sum(some.dropped.clone()) == one.dropped
    for (name, x), y in zip(net.named_parameters(), parallel.parameters(), strict=True):
        wanted = x.grad.chunk(world.size)[world.rank] if id(y) in apart else x.grad
        torch.testing.assert_close(y.grad, wanted, msg=name)
    gather_experts(parallel)
    for name, x in parallel.state_dict().items():
        assert torch.equal(x, net.state_dict()[name]), name
    torch.testing.assert_close(parallel.eval()(source, target).logits, net.eval()(source, target).logits)
    (folder / f"done-{world.rank}").write_text("")


def spoil(folder: Path, kind: str) -> None:
    """A run from the command line in which something fails after the first checkpoint."""
    save, update = Checkpoints.save, Engine.update
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def spoilt_save(self: Checkpoints, checkpoint: Checkpoint) -> None:
        if checkpoint.step == 4 and kind == "full" and not self.world.first:
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
        if checkpoint.step == 4 and kind == "gone" and self.world.first:
            shutil.move(self.folder, folder / "earlier")
            self.folder.write_text("not a folder")
        save(self, checkpoint)

    def spoilt_update(self: Engine, *given: Any) -> Any:
        if self.state.step == 3 and kind == "alone" and not self.world.first:
            raise InputError("this process has a bad row", where="row 7")
        if self.state.step == 3 and kind == "killed" and not self.world.first:
            os.kill(os.getpid(), signal.SIGKILL)
        return update(self, *given)

    Checkpoints.save, Engine.update = spoilt_save, spoilt_update  # type: ignore[method-assign]
    words = [f"folder={folder / 'run'}", "train.save=2", "train.steps=6", "train.distribution=fsdp"]
    code = command_line(["train", str(folder / "tiny.toml"), *words])
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    print(f"exit code {code}", flush=True)


def fill(folder: Path) -> None:
    """A run from the command line whose task fills its own data."""
    FAMILIES.rows["maker"], SOURCES.rows["ring"] = toymodality.FAMILY, toymodality.SOURCE
    GOALS.rows["walk"] = toymodality.WALK
    (folder / "walk.toml").write_text(run_template("walk"))
    code = command_line(["train", str(folder / "walk.toml"), f"folder={folder / 'run'}"])
    print(f"exit code {code}", flush=True)


def main() -> None:
    what, folder, kind = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    if what == "spoil":
        return spoil(folder, kind)
    if what == "fill":
        return fill(folder)
    known = {"curve": curve, "resume": resume, "gradient": gradient, "nets": nets, "experts": experts, "routed": routed}
    with join_world() as world:
        known[what](folder, world, kind)


if __name__ == "__main__":
    main()
    leave(0)
