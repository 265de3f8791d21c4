"""The table of what may be broken on purpose keeps up with the source."""

import pytest

from tests.mutations import MUTATIONS, ROOT, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_what_it_changes_is_there(mutation: Mutation) -> None:
    text = (ROOT / "src" / "regard" / mutation.file).read_text("utf-8")
    assert text.count(mutation.old) == mutation.times
    assert mutation.new != mutation.old
