"""A class of 32 looks at 32 sentences at once: seconds until a look is there, with one process and with several, in
turns:  python -m benchmarks.classroom [--workers 2] [--rounds 3]"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median, quantiles
from urllib.request import Request, urlopen

CLIENTS, AIM = 32, 1.5
NAMES = ("The dog", "My brother", "Our teacher", "The old man", "A bird", "Her sister", "The doctor", "His friend")
DOES = ("has never seen such a big house", "lives near the river", "was too tired to go", "reads a book every day")


def sentences(turn: int) -> list[str]:
    """Others in each turn, so that none is known already."""
    again = " again" * turn
    return [f"{name} {does}{again}." for name in NAMES for does in DOES]


@contextmanager
def serving(workers: int) -> Iterator[str]:
    words = [sys.executable, "-m", "regard", "serve", "--port", "0", "--json", "--workers", str(workers)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        found = re.search(r"http://[^\"]+/", process.stdout.readline())
        assert found is not None
        try:
            yield found[0]
        finally:
            process.terminate()


def look(base: str, text: str) -> float:
    """Seconds of a client that opens a sentence and draws its heads: the look and its thumbnails."""
    start = time.perf_counter()
    body = json.dumps({"model": "tatoeba-en-de", "input": {"kind": "text", "text": text}}).encode()
    asked = Request(f"{base}api/v1/look", body, {"Content-Type": "application/json"})
    with urlopen(asked, timeout=60) as answer:
        name = json.load(answer)["id"]
    with urlopen(f"{base}api/v1/looks/{name}/thumbnails", timeout=60) as answer:
        answer.read()
    return time.perf_counter() - start


def classroom(base: str, turn: int) -> list[float]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(lambda text: look(base, text), sentences(turn)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classroom")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    found: dict[int, list[float]] = {1: [], chosen.workers: []}
    with serving(1) as alone, serving(chosen.workers) as several:
        addresses = {1: alone, chosen.workers: several}
        for base in addresses.values():
            classroom(base, 0)  # every worker has loaded the model
        for turn in range(1, chosen.rounds + 1):
            for workers, base in addresses.items():
                found[workers] += classroom(base, turn)
    load = os.getloadavg()[0]
    print(f"{CLIENTS} clients, {chosen.rounds} rounds, {os.cpu_count()} cores, load {load:.1f}")
    for workers, seconds in found.items():
        low, _, high = quantiles(seconds, n=4)
        told = "reached" if median(seconds) <= AIM else "missed"
        print(
            f"  workers {workers}: a look in {median(seconds):.2f} s ({low:.2f} to {high:.2f}), aim {AIM:g} s: {told}"
        )
    print(f"  one process takes {median(found[1]) / median(found[chosen.workers]):.2f} times as long")


if __name__ == "__main__":
    main()
