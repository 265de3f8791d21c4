"""Attentions alone, 8 heads of 64: python -m benchmarks.attention [NAME ...] [--lengths 1024,4096,16384] [--rounds 5]

Seconds of the processor and peak memory of a forward pass alone, and of one with its backward pass, at each length,
with fitted slopes; where each becomes faster than fused softmax; and ratios to the package that people use today. Who
is compared takes turns, each in a process of its own: peak memory is that of a process. What a process holds before,
inputs too, does not count; queries, keys and values lie in memory as projections leave them. Errors are against exact
attention, beside that of one who takes the plain mean of all values. At the end stands what was aimed at, and whether
it was reached.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.attention import MultiHeadAttention
from regard.nn.mask import Mask
from regard.nn.mechanisms import Choice, build_mixer
from regard.nn.site import Site

HEADS, WIDTH, FEATURES = 8, 64, 256
CHUNK, ROUNDS, LATENTS = 64, 4, 256
ERROR_LENGTH, SPREAD = 512, 0.25  # of queries and keys: at 0.5, 256 features know less than a plain mean of all values
LINEAR, HASHED = 1.15, 1.25  # aims: powers of the length
LONG, TIMES = 4096, 1.5  # from which length on, how much faster and leaner than a peer
TOPICS = 8  # around which queries lie in the error of hashing: where all are strangers, there is nobody to find

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]  # (1, h, n, e) of each -> (1, h, n, e)
Estimates = Literal["softmax", "shared"]  # attention of queries to keys, or of queries to each other


@dataclass(frozen=True)
class Subject:
    build: Callable[[int], Attend]  # for a length
    peer: str = ""  # whom its times and memory are compared with
    longest: int = 1 << 20  # beyond, it takes more memory than there is
    causal: bool = False
    estimates: Estimates | None = None  # the attention that it is nearly, and so has an error
    steepest: float | None = None  # the power of the length by which time and memory may grow


def ours(choice: Choice, *, causal: bool = False) -> Callable[[int], Attend]:
    def build(n: int) -> Attend:
        site = Site(dim=HEADS * WIDTH, heads=HEADS, length=n, causal=causal)
        mixer = build_mixer(choice, site)
        assert isinstance(mixer, MultiHeadAttention)
        return lambda q, k, v: mixer.kernel(q, k, v, Mask(causal=causal))

    return build


def hashed(n: int, *, causal: bool = False, form: str = "chunks") -> Attend:
    """Queries are keys, too. Chunks are what the peer has; a band is ours, and decodes."""
    SEEDS.append(len(SEEDS))  # other hashes for every draw
    attend = ours(LSH | {"form": form, "seed": SEEDS[-1]}, causal=causal)(n)
    return lambda q, _, v: attend(q, q, v)


def plain_mean(n: int) -> Attend:
    """Who looks at nobody in particular: what an estimate must be better than."""
    return lambda q, k, v: v.mean(-2, keepdim=True).expand_as(v)


def plain_performer(n: int) -> Attend:
    """As the paper has it: without what the library adds to its features."""
    return ours(PERFORMER | {"added": 0.0})(n)


def performer_pytorch(n: int, *, causal: bool = False) -> Attend:
    from performer_pytorch.performer_pytorch import FastAttention

    found: Attend = FastAttention(WIDTH, FEATURES, causal=causal)
    return found


def reformer_pytorch(n: int, *, causal: bool = False) -> Attend:
    """It divides scores by sqrt(e) after its keys have length 1, where the paper does not: hence the factor."""
    from reformer_pytorch.reformer_pytorch import LSHAttention

    attend = LSHAttention(bucket_size=CHUNK, n_hashes=ROUNDS, causal=causal)
    return lambda q, _, v: attend(q[0] * WIDTH**0.5, v[0])[0][None]


def linformer(n: int) -> Attend:
    """Of a layer that projects, only what comes after its projections. One context serves as keys and as values."""
    from linformer import LinformerSelfAttention

    layer = LinformerSelfAttention(HEADS * WIDTH, n, k=FEATURES, heads=HEADS)
    layer.to_q = layer.to_k = layer.to_v = layer.to_out = torch.nn.Identity()

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found: Tensor = layer(wide(q), wide(k))
        return found

    return attend


def wide(x: Tensor) -> Tensor:
    """(b, h, n, e) -> (b, n, h e)"""
    return x.transpose(1, 2).flatten(2)


def latents(n: int) -> Attend:
    """A fixed number of queries, as a Perceiver has."""
    attend = ours("softmax")(n)
    return lambda q, k, v: attend(q[:, :, :LATENTS], k, v)


PERFORMER = {"kind": "performer", "features": FEATURES}
LINFORMER = {"kind": "linformer", "rank": FEATURES, "shared": "heads"}
LSH = {"kind": "lsh", "chunk": CHUNK, "rounds": ROUNDS}
SEEDS: list[int] = []
SUBJECTS: dict[str, Subject] = {
    "softmax": Subject(ours("softmax")),
    "softmax, causal": Subject(ours("softmax", causal=True), causal=True),
    "performer-pytorch": Subject(performer_pytorch, estimates="softmax"),
    "performer": Subject(ours(PERFORMER), "performer-pytorch", estimates="softmax", steepest=LINEAR),
    "performer-pytorch, causal": Subject(
        partial(performer_pytorch, causal=True), longest=2048, causal=True, estimates="softmax"
    ),
    "performer, causal": Subject(
        ours(PERFORMER, causal=True), "performer-pytorch, causal", causal=True, estimates="softmax", steepest=LINEAR
    ),
    "random-features": Subject(ours({"kind": "random-features", "features": FEATURES // 2})),
    "reformer-pytorch": Subject(reformer_pytorch, estimates="shared"),
    "lsh": Subject(hashed, "reformer-pytorch", estimates="shared", steepest=HASHED),
    "reformer-pytorch, causal": Subject(partial(reformer_pytorch, causal=True), causal=True, estimates="shared"),
    "lsh, causal": Subject(
        partial(hashed, causal=True),
        "reformer-pytorch, causal",
        causal=True,
        estimates="shared",
        steepest=HASHED,
    ),
    "lsh, causal, band": Subject(partial(hashed, causal=True, form="band"), causal=True, steepest=HASHED),
    "linformer, package": Subject(linformer),
    "linformer": Subject(ours(LINFORMER), "linformer, package", steepest=LINEAR),
    "perceiver": Subject(latents, steepest=LINEAR),
    "local": Subject(ours("local"), steepest=LINEAR),
    "strided, causal": Subject(ours("strided", causal=True), causal=True),
    "fixed, causal": Subject(ours("fixed", causal=True), causal=True),
}


# Only their errors are told.
JUDGED: dict[str, Subject] = {
    "performer, nothing added": Subject(plain_performer, estimates="softmax"),
    "plain mean": Subject(plain_mean, estimates="softmax"),
    "plain mean, of shared queries": Subject(plain_mean, estimates="shared"),
}


def inputs(n: int) -> list[Tensor]:
    """As projections leave them."""
    torch.manual_seed(0)
    return [torch.randn(1, n, HEADS, WIDTH, requires_grad=True) for _ in range(3)]


def heads(given: list[Tensor]) -> list[Tensor]:
    """(1, n, h, e) -> (1, h, n, e), in the same memory"""
    return [x.transpose(1, 2) for x in given]


def work(name: str, n: int) -> None:
    """What a process does for every word that it reads."""
    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout, sys.stderr  # some packages print
    subject = (SUBJECTS | JUDGED)[name]
    attend, given = subject.build(n), inputs(n)
    if name in SUBJECTS:
        subject.build(128)(*heads(inputs(128))).sum().backward()  # what is loaded or made once is no part of it
    for line in sys.stdin:
        what, *of = line.split()
        answer = error(subject, n) if what == "error" else cost(attend, given, what, of == ["forward"])
        print(json.dumps(answer), file=answers, flush=True)


def cost(attend: Attend, given: list[Tensor], what: str, forward: bool) -> float:
    """Seconds, or MB at the peak."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, start = status("VmRSS"), time.process_time()
    if forward:
        with torch.no_grad():
            attend(*heads(given))
    else:
        attend(*heads(given)).sum().backward()
    found = time.process_time() - start if what == "time" else status("VmHWM") - before
    for x in given:
        x.grad = None
    return found


def error(subject: Subject, n: int) -> float:
    """Of what comes out, against what it estimates: root of the mean square, over several draws."""
    scales = (0.5, 0.5, 1.0) if subject.estimates == "shared" else (SPREAD, SPREAD, 1.0)
    q, k, v = (x.detach() * scale for x, scale in zip(heads(inputs(n)), scales, strict=True))
    if subject.estimates == "shared":
        q = k[:, :, torch.arange(n) % TOPICS] * 4 + q
        exact = shared(q, v, subject.causal)
    else:
        exact = F.scaled_dot_product_attention(q, k, v, is_causal=subject.causal)
    with torch.no_grad():
        draws = [(subject.build(n)(q, k, v) - exact).square().mean() for _ in range(8)]
    return float(torch.stack(draws).mean().sqrt())


def shared(q: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Every query looks at all others, or all earlier ones, by their directions."""
    scores, n = q @ F.normalize(q, dim=-1).mT, q.shape[-2]
    scores = scores.masked_fill(torch.eye(n, dtype=torch.bool), -1e5)
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return (scores.masked_fill(later, -1e9) if causal else scores).softmax(-1) @ v


def status(field: str) -> float:
    """Of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


@dataclass(frozen=True)
class Worker:
    process: subprocess.Popen[str]

    def ask(self, word: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(word, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a contender ended: {self.process.args!r}")
        return float(json.loads(line))


@contextmanager
def worker(name: str, n: int) -> Iterator[Worker]:
    command = [sys.executable, "-m", "benchmarks.attention", "--work", name, "--lengths", str(n)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield Worker(process)
        finally:
            process.kill()


@dataclass(frozen=True)
class Cost:
    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Measured:
    name: str
    length: int
    seconds: list[float]  # of each round, forward and backward
    megabytes: float
    forward: list[float]  # seconds of each round
    forward_megabytes: float

    @property
    def time(self) -> float:
        return statistics.median(self.seconds)

    def costs(self, key: str) -> Cost:
        if key == "forward":
            return Cost(statistics.median(self.forward), self.forward_megabytes)
        return Cost(self.time, self.megabytes)


def measure(names: list[str], n: int, rounds: int) -> list[Measured]:
    """Those that can take this length take turns."""
    names = [name for name in names if n <= SUBJECTS[name].longest]
    with ExitStack() as stack:
        workers = {name: stack.enter_context(worker(name, n)) for name in names}
        alone = {name: one.ask("memory forward") for name, one in workers.items()}
        memory = {name: one.ask("memory both") for name, one in workers.items()}
        times: dict[str, list[float]] = {name: [] for name in names}
        forward: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(rounds):
            for name in names if turn % 2 else reversed(names):
                times[name].append(workers[name].ask("time both"))
                forward[name].append(workers[name].ask("time forward"))
    return [Measured(name, n, times[name], memory[name], forward[name], alone[name]) for name in names]


def slope(lengths: list[int], values: list[float]) -> float:
    """Of the line through the logarithms."""
    x, y = [math.log(n) for n in lengths], [math.log(value) for value in values]
    return statistics.linear_regression(x, y).slope if len(x) > 1 else math.nan


def growth(costs: dict[int, Cost]) -> Cost:
    """The powers of the length by which they grow; memory below 1 MB is none."""
    lengths = list(costs)
    memory = [max(x.megabytes, 1.0) for x in costs.values()]
    return Cost(slope(lengths, [x.seconds for x in costs.values()]), slope(lengths, memory))


def verdicts(found: list[Measured], errors: dict[str, float]) -> Iterator[str]:
    """What was aimed at."""
    for name in dict.fromkeys(one.name for one in found):
        subject, rows = SUBJECTS[name], [one for one in found if one.name == name]
        if subject.steepest is not None and len(rows) > 1:
            for key in ("both", "forward"):
                bends = growth({one.length: one.costs(key) for one in rows})
                worst = max(bends.seconds, bends.megabytes)
                what = f"{name}, {key}: grows as n^{bends.seconds:.2f} in time, n^{bends.megabytes:.2f} in memory"
                yield f"{reached(worst <= subject.steepest)}  {what} (aim: at most {subject.steepest:g})"
        for one in rows:
            other = next((x for x in found if x.name == subject.peer and x.length == one.length), None)
            if other is not None and (one.length >= LONG or SUBJECTS[other.name].longest < LONG):
                time = statistics.median(a / b for a, b in zip(other.seconds, one.seconds, strict=True))
                memory = other.megabytes / one.megabytes
                what = f"{name} against {other.name}, n = {one.length}: x {time:.2f} in time, x {memory:.2f} in memory"
                yield f"{reached(min(time, memory) >= TIMES)}  {what} (aim: {TIMES:g} each)"
        flat = rows[-1].forward_megabytes if name == "softmax" else 0.0
        if flat:
            own = HEADS * rows[-1].length * WIDTH * 4 / 2**20  # what comes out
            what = f"softmax, forward: {flat:.0f} MB at n = {rows[-1].length}, where its output alone has {own:.0f} MB"
            yield f"{reached(flat < 1.5 * own)}  {what} (aim: at most 1.5 times, no matrix)"
        if subject.peer in errors and name in errors:
            what = f"{name}: error {errors[name]:.4f}, {subject.peer} {errors[subject.peer]:.4f}"
            yield f"{reached(errors[name] <= errors[subject.peer])}  {what} (aim: no more than it)"


def reached(good: bool) -> str:
    return "reached" if good else "missed "


def together(names: list[str]) -> list[list[str]]:
    """Each with its peers; what has none stands alone."""
    asked = list(dict.fromkeys(name for chosen in names for name in (SUBJECTS[chosen].peer, chosen) if name))
    leaders = [name for name in asked if not SUBJECTS[name].peer]
    return [[leader, *(name for name in asked if SUBJECTS[name].peer == leader)] for leader in leaders]


def crossing(own: dict[int, float], other: dict[int, float]) -> str:
    """Where a line becomes the lower one, between the lengths that were measured."""
    lengths = sorted(own.keys() & other.keys())
    gains = [math.log(other[n] / own[n]) for n in lengths]
    for a, b, low, high in zip(lengths, lengths[1:], gains, gains[1:], strict=False):
        if low < 0 <= high:
            return f"from n = {a * (b / a) ** (low / (low - high)):.0f} on"
    return "at every length" if gains and gains[0] >= 0 else f"at no length up to {max(lengths, default=0)}"


def lines(found: list[Measured], errors: dict[str, float]) -> Iterator[str]:
    names, width = list(dict.fromkeys(one.name for one in found)), max(len(one.name) for one in found)
    table = {name: {one.length: one for one in found if one.name == name} for name in names}
    for title, key in (("forward and backward", "both"), ("forward alone", "forward")):
        yield f"{title}: milliseconds and MB at each length, and the powers of the length by which they grow"
        for name, row in table.items():
            costs = {n: one.costs(key) for n, one in row.items()}
            cells = "  ".join(f"{n}: {1000 * x.seconds:.0f} ms {x.megabytes:.0f} MB" for n, x in costs.items())
            bends = growth(costs)
            yield f"{name:<{width}}  {cells}  (n^{bends.seconds:.2f}, n^{bends.megabytes:.2f})"
    for name, row in table.items():
        exact = "softmax, causal" if SUBJECTS[name].causal else "softmax"
        if name != exact and exact in table:
            times, others = ({n: one.time for n, one in table[x].items()} for x in (name, exact))
            yield f"{name} is faster than fused softmax {crossing(times, others)}"
        for n, one in row.items():
            other = table.get(SUBJECTS[name].peer, {}).get(n)
            if other is not None:
                ratios = sorted(a / b for a, b in zip(other.seconds, one.seconds, strict=True))
                yield (
                    f"{name} against {other.name}, n = {n}: x {statistics.median(ratios):.2f} "
                    f"({ratios[0]:.2f} to {ratios[-1]:.2f}) in time, x {other.megabytes / one.megabytes:.2f} in memory"
                )
    for name, value in errors.items():
        yield f"{name}: error {value:.4f} against exact attention"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attention", description="Attentions alone.")
    parser.add_argument("names", nargs="*", help="which ones, each with its peer; all unless given")
    parser.add_argument("--lengths", default="1024,4096,16384")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    lengths = [int(n) for n in chosen.lengths.split(",")]
    if chosen.work is not None:
        work(chosen.work, lengths[0])
        return
    unknown = [name for name in chosen.names if name not in SUBJECTS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(SUBJECTS)}")
    groups = together(chosen.names or list(SUBJECTS))
    load = os.getloadavg()[0]
    found = [one for names in groups for n in lengths for one in measure(names, n, chosen.rounds)]
    errors = {}
    judged = [name for names in groups for name in names if SUBJECTS[name].estimates]
    for name in dict.fromkeys([*judged, *(JUDGED if judged else ())]):
        with worker(name, ERROR_LENGTH) as one:
            errors[name] = one.ask("error")
    if chosen.json:
        print(json.dumps({"load": load, "measured": [asdict(one) for one in found], "errors": errors}, indent=2))
        return
    said = [*lines(found, errors), *verdicts(found, errors)]
    print(f"one thread, {chosen.rounds} rounds, load {load:.1f}", *said, sep="\n")


if __name__ == "__main__":
    main()
