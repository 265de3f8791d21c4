"""Run the current checks on the stored results: python -m regard_lectures.recheck [ID ...]

Nothing is computed: the numbers and how they were made stay, and what follows from them is written anew.
"""

import argparse
from collections.abc import Sequence

from regard_lectures import records
from regard_lectures.gallery import check_known
from regard_lectures.table import FIGURES, module, record


def rechecked(name: str) -> tuple[str, str]:
    """The verdict before and after."""
    found = record(name)
    if found is None:
        return "not recorded", "not recorded"
    now = records.judged(name, module(name), found["numbers"], found["made"])
    records.write(records.RESULTS / f"{name}.json", now)
    return records.words(found), records.words(now)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m regard_lectures.recheck", description="Check stored results.")
    parser.add_argument("ids", nargs="*", metavar="ID", help="figures, such as 2.4; all of them if none is given")
    names = parser.parse_args(words).ids
    check_known(parser, names)
    counts: dict[str, int] = {}
    for name in names or list(FIGURES):
        before, now = rechecked(name)
        word = now.partition(":")[0].partition(" (")[0]
        counts[word] = counts.get(word, 0) + 1
        if before != now:
            print(f"{name}\t{before} -> {now}")
    print(", ".join(f"{count} {word}" for word, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
