"""The time of a document: absent where there is none, and the number of its call for each site of a moment."""

from dataclasses import replace

import regard
from regard.look.document import About, document_data
from regard.look.examples import TimeAxis

ABOUT = About("recall", "gpt", None, 1, "text")


def test_without_time_nothing_is_told_of_it() -> None:
    told = document_data(regard.load("recall").look("Anna sings ."), ABOUT)
    assert "time" not in told
    assert all("time" not in site for site in told["sites"])


def test_a_site_that_ran_in_each_moment_is_numbered() -> None:
    found = regard.load("recall").look("Anna sings .")
    assert found.example is not None
    first, *others = found.sites
    sites = {**found.sites, first: replace(found.sites[first], records=3 * list(found.sites[first].records))}
    several = replace(found, sites=sites, example=replace(found.example, time=TimeAxis("recycling", 3)))
    told = document_data(several, ABOUT)
    assert told["time"] == {"unit": "recycling", "count": 3}
    assert [(site["name"], site["time"]) for site in told["sites"][:3]] == [(f"{first}@{i}", i) for i in range(3)]
    assert all("time" not in site for site in told["sites"][3:])
    assert [site["name"] for site in told["sites"][3:]] == others
