"""The contracts of whatever a plug-in registers."""

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from regard.errors import InputError
from regard.plugins import REGISTERED, PluginSource, Registered

from . import families, mixers, others, reach, runs
from .report import Contract, Verdict, verdict_of


def run_contracts(plugin: str, sources: Collection[PluginSource]) -> Iterator[Verdict]:
    """Every contract of every row that came from the sources of a plug-in, in the order in which they were registered,
    one by one."""
    rows = [one for one in REGISTERED if one.source in sources]
    if not rows:
        fix = "call regard.register in the file, or in what the package's entry points name"
        raise InputError("the plug-in registers nothing", where=plugin, fix=fix)
    for one in rows:
        for contract in contracts_of(one):
            yield verdict_of(f"{one.what} {one.name!r}", contract)


def contracts_of(one: Registered) -> Iterable[Contract]:
    """A row of which not even the contracts can be told has broken a first one."""
    try:
        return list(by_subject(one))
    except Exception as error:
        return [Contract("it can be built", partial(raised, error))]


def raised(error: Exception) -> None:
    raise error


def by_subject(one: Registered) -> Iterable[Contract]:
    if one.what == "attention":
        return mixers.contracts(one.name, one.row.traits)
    if one.what == "model family":
        return [*families.contracts(one.name), *reach.contracts(one.name)]
    if one.what == "collection of figures":
        return others.collection_contracts(one.row)
    return {
        "task": runs.goal_contracts,
        "kind of data": runs.data_contracts,
        "checkpoint table": others.checkpoint_contracts,
        "processor": others.processor_contracts,
        "verb": others.verb_contracts,
        "analysis": others.analysis_contracts,
        "figure": others.figure_contracts,
    }[one.what](one.name)
