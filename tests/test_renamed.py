"""Documented names that were changed still work, and warn."""

import importlib

import pytest

OLD = {
    "regard.look.flow.flowed": "regard.look.flow.attention_flow",
    "regard.look.lens.through_lens": "regard.look.lens.logit_lens",
    "regard.look.occlusion.attribution": "regard.look.occlusion.occlusion_map",
    "regard.look.windows.whole": "regard.look.windows.joined_map",
    "regard.look.onefile.module": "regard.look.standalone.module",
    "regard.look.onefile.standalone": "regard.look.standalone.standalone_page",
    "regard.look.leaving.replaced": "regard.look.exclusion.replaced",
    "regard.look.leaving.unseen": "regard.look.exclusion.unseen",
    "regard.look.leaving.without": "regard.look.exclusion.without",
    "regard.modalities.text.preparation.HOW": "regard.modalities.text.preparation.TOKENIZER_HELP",
    "regard.modalities.text.preparation.TEXT": "regard.modalities.text.preparation.TEXT_PREPARATION",
    "regard.models.family.classifies": "regard.models.family.classifier_verbs",
    "regard.nn.influence.tell": "regard.nn.influence.compute_with_influence",
}
MODULES = [
    "look.flow",
    "look.lens",
    "look.occlusion",
    "look.windows",
    "look.leaving",
    "look.onefile",
    "modalities.text.preparation",
    "models.family",
    "nn.influence",
]


def found(place: str) -> object:
    module, _, name = place.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("old", OLD)
def test_an_old_name_warns_and_is_the_new_one(old: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"renamed to {OLD[old]};"):
        assert found(old) is found(OLD[old])


@pytest.mark.parametrize("module", MODULES)
def test_any_other_name_is_missing(module: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'regard.{module}' has no attribute 'nothing'"):
        found(f"regard.{module}.nothing")
