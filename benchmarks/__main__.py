"""python -m benchmarks [NAME ...] [--threads 1] [--rounds 9] [--json]"""

import argparse
import json

import torch

from . import core, drawing, vision

ALL = core.ALL | vision.ALL | drawing.ALL


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed against the peers, as ratios.")
    parser.add_argument("names", nargs="*", choices=[*ALL, []], help="which ones; all unless given")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    results = []
    for name in chosen.names or ALL:
        result = ALL[name](chosen.rounds, chosen.threads)
        results.append(result.data())
        if not chosen.json:
            print("\n".join(result.lines()) + "\n", flush=True)
    if chosen.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
