"""The checkpoint rules: reversible, complete, and every problem named in one error."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.errors import CheckpointError, InputError
from regard.interop.rules import (
    Dropped,
    Entry,
    Idle,
    Ours,
    Rule,
    Tied,
    check_tensors,
    convert,
    export,
    in_order,
    shapes,
)
from regard.interop.tensor_ops import SAME, Chain, Chunk, Fuse, Op, Permute, Reshape, Transpose

DIM, DEPTH, WORDS = 4, 12, 7


def table() -> list[Entry]:
    """A small GPT-2 as others store it: fused and transposed projections, a class token of three axes, a tied head."""
    return [
        Rule("wte.weight", "embed.weight"),
        Rule("h.{i}.ln.{p}", "blocks.{i}.norm.{p}"),
        Rule(
            "h.{i}.attn.{p}",
            ("blocks.{i}.q.{p}", "blocks.{i}.k.{p}", "blocks.{i}.v.{p}"),
            Chain(Transpose(), Chunk(3)),
        ),
        Rule(("h.{i}.up.{p}", "h.{i}.gate.{p}"), "blocks.{i}.both.{p}", Fuse(2)),
        Rule("cls", "token", Reshape((1, 1, DIM), (DIM,))),
        Rule("conv.weight", "patch.weight", Permute((3, 2, 0, 1))),
        Tied("lm_head.weight", "embed.weight"),
        Ours("scale", lambda: torch.full((1,), 0.5)),
        Dropped("h.{i}.mask", "a buffer that follows from the length"),
    ]


def theirs() -> dict[str, Tensor]:
    torch.manual_seed(0)
    state = {
        "wte.weight": torch.randn(WORDS, DIM),
        "cls": torch.randn(1, 1, DIM),
        "conv.weight": torch.randn(3, 2, 5, 6),
    }
    for i in range(DEPTH):
        state |= {f"h.{i}.ln.weight": torch.randn(DIM), f"h.{i}.ln.bias": torch.randn(DIM)}
        state |= {f"h.{i}.attn.weight": torch.randn(DIM, 3 * DIM), f"h.{i}.attn.bias": torch.randn(3 * DIM)}
        state |= {f"h.{i}.up.weight": torch.randn(8, DIM), f"h.{i}.gate.weight": torch.randn(8, DIM)}
    return state


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def problems(call: Callable[[], object]) -> str:
    with pytest.raises(CheckpointError) as caught:
        call()
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------ both ways


def test_convert_puts_every_value_where_the_table_says() -> None:
    state, ours = theirs(), convert(theirs(), table())
    assert torch.equal(ours["embed.weight"], state["wte.weight"])
    assert torch.equal(ours["blocks.11.norm.bias"], state["h.11.ln.bias"])
    assert torch.equal(ours["blocks.3.k.weight"], state["h.3.attn.weight"].T[DIM : 2 * DIM])
    assert torch.equal(ours["blocks.3.v.bias"], state["h.3.attn.bias"][2 * DIM :])
    assert torch.equal(ours["blocks.0.both.weight"], torch.cat([state["h.0.up.weight"], state["h.0.gate.weight"]]))
    assert torch.equal(ours["token"], state["cls"][0, 0])
    assert ours["patch.weight"].shape == (6, 5, 3, 2)
    assert ours["patch.weight"][1, 2, 0, 1] == state["conv.weight"][0, 1, 2, 1]
    assert torch.equal(ours["scale"], torch.tensor([0.5]))
    assert len(ours) == 4 + DEPTH * 9


def test_import_then_export_is_the_identity() -> None:
    assert same(export(convert(theirs(), table()), table()), theirs())


def test_export_then_import_is_the_identity() -> None:
    ours = convert(theirs(), table())
    assert same(convert(export(ours, table()), table()), ours)


def test_the_order_of_the_rules_means_nothing() -> None:
    state = theirs() | {"lm_head.weight": theirs()["wte.weight"].clone()}
    assert same(convert(state, table()), convert(state, table()[::-1]))


@pytest.mark.parametrize(
    ("op", "given_shapes"),
    [
        (SAME, [(2, 3)]),
        (Transpose(), [(2, 3)]),
        (Transpose(), [(5,)]),
        (Permute((1, 2, 0)), [(2, 3, 4)]),
        (Permute(()), [()]),
        (Reshape((2, 6), (3, 4)), [(2, 6)]),
        (Reshape((), (1, 1)), [()]),
        (Chunk(3), [(6, 2)]),
        (Chunk(2, 1), [(3, 4)]),
        (Chunk(2, -1), [(3, 4)]),
        (Chunk(3), [(0, 2)]),
        (Fuse(2), [(2, 3), (2, 3)]),
        (Fuse(2, -1), [(2, 3), (2, 3)]),
        (Chain(Transpose(), Chunk(2)), [(3, 4)]),
        (Chain(Reshape((2, 3), (1, 2, 3)), Fuse(4)), [(2, 3)] * 4),
        (Chain(Reshape((8, 2), (2, 4, 2)), Permute((1, 0, 2)), Reshape((4, 2, 2), (8, 2))), [(8, 2)]),
        (Chain(), [(2,)]),
    ],
    ids=str,
)
def test_every_op_is_undone_by_its_reverse(op: Op, given_shapes: list[tuple[int, ...]]) -> None:
    tensors = [torch.randn(shape) for shape in given_shapes]
    back = op.reverse()(op(tensors))
    assert len(back) == len(tensors)
    assert all(torch.equal(x, y) for x, y in zip(tensors, back, strict=True))
    again = op.reverse().reverse()(tensors)
    assert all(torch.equal(x, y) for x, y in zip(op(tensors), again, strict=True))


@given(st.integers(1, 4), st.integers(1, 3), st.lists(st.integers(0, 3), min_size=1, max_size=4), st.data())
def test_chunk_and_fuse_are_inverse(parts: int, scale: int, shape: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    shape[axis] = parts * scale
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    pieces = Chunk(parts, axis)([x])
    assert [tuple(p.shape) for p in pieces] == [(*shape[:axis], scale, *shape[axis + 1 :])] * parts
    assert torch.equal(Chunk(parts, axis).reverse()(pieces)[0], x)


@given(st.permutations(range(5)))
def test_any_permutation_is_undone(axes: list[int]) -> None:
    x = torch.randn(1, 2, 3, 4, 5)
    op = Permute(tuple(axes))
    assert torch.equal(op.reverse()(op([x]))[0], x)


part = st.text(st.sampled_from("abz019_-"), min_size=1, max_size=3)


@given(st.dictionaries(st.tuples(part, part), st.integers(0, 3), min_size=1, max_size=8))
def test_placeholders_carry_any_part(sizes: dict[tuple[str, str], int]) -> None:
    state = {f"a.{i}.x.{p}": torch.randn(n) for (i, p), n in sizes.items()}
    rules = [Rule("a.{i}.x.{p}", "b.{p}.{i}")]
    ours = convert(state, rules)
    assert ours.keys() == {f"b.{p}.{i}" for i, p in sizes}
    assert same(export(ours, rules), state)


def test_a_placeholder_is_one_part_and_the_same_everywhere() -> None:
    assert "a.0.1.w: matched by no rule" in problems(
        lambda: convert({"a.0.1.w": torch.ones(1)}, [Rule("a.{i}.w", "b.{i}")])
    )
    rules = [Rule("a.{i}.{i}", "b.{i}")]
    assert "a.0.1: matched by no rule" in problems(lambda: convert({"a.0.1": torch.ones(1)}, rules))
    assert convert({"a.2.2": torch.ones(1)}, rules).keys() == {"b.2"}
    assert export({"b.2": torch.ones(1)}, rules).keys() == {"a.2.2"}


def test_names_are_not_patterns() -> None:
    assert "axw: matched by no rule" in problems(lambda: convert({"axw": torch.ones(1)}, [Rule("a.w", "b")]))
    assert convert({"a+(b)*.w": torch.ones(1)}, [Rule("a+(b)*.w", "b")]).keys() == {"b"}


# --------------------------------------------------------------------------------------------------- what is wrong


def test_a_junk_tensor_is_refused() -> None:
    assert "junk.weight: matched by no rule" in problems(
        lambda: convert(theirs() | {"junk.weight": torch.ones(1)}, table())
    )


def test_a_tensor_named_by_two_rules_is_refused_with_both() -> None:
    text = problems(lambda: convert(theirs(), [*table(), Rule("h.{i}.ln.weight", "other.{i}")]))
    assert "h.3.ln.weight: matched by Rule 'h.{i}.ln.{p}' and by Rule 'h.{i}.ln.weight'" in text
    assert "h.3.ln.bias" not in text


def test_two_templates_of_one_rule_are_an_overlap_too() -> None:
    text = problems(lambda: convert({"a.1": torch.ones(1)}, [Rule(("a.{i}", "{i}.1"), "b.{i}", Fuse(2))]))
    assert "a.1: matched by" in text


def test_dropped_and_tied_count_as_naming() -> None:
    state = {"a": torch.ones(1)}
    assert "matched by Rule 'a' and by Dropped 'a'" in problems(
        lambda: convert(state, [Rule("a", "b"), Dropped("a", "x")])
    )
    assert "matched by Rule 'a' and by Tied 'a'" in problems(lambda: convert(state, [Rule("a", "b"), Tied("a", "b")]))


def test_an_incomplete_group_names_what_is_missing_whichever_it_is() -> None:
    for gone, left in (("up", "gate"), ("gate", "up")):
        state = theirs()
        del state[f"h.7.{gone}.weight"]
        text = problems(lambda state=state: convert(state, table()))
        assert f"h.7.{gone}.weight: missing, but h.7.{left}.weight" in text
        assert "1 problem\n" in text


def test_an_incomplete_group_of_ours_stops_the_export() -> None:
    ours = convert(theirs(), table())
    del ours["blocks.5.k.bias"]
    assert "blocks.5.k.bias: missing, but blocks.5.q.bias, blocks.5.v.bias found" in problems(
        lambda: export(ours, table())
    )


def test_two_rules_that_write_one_name_are_refused() -> None:
    state = {"a": torch.ones(1), "b": torch.ones(1)}
    rules: list[Entry] = [Rule("a", "c"), Rule("b", "c")]
    assert "c: assigned twice, from a and from b" in problems(lambda: convert(state, rules))
    ours: list[Entry] = [Rule("a", "c"), Ours("c", lambda: torch.ones(1)), Rule("b", "d")]
    assert "c: assigned twice" in problems(lambda: convert(state, ours))


@pytest.mark.parametrize(
    ("op", "shape", "text"),
    [
        (Transpose(), (2, 3, 4), "got shape (2, 3, 4)"),
        (Permute((1, 0)), (2,), "takes 2 axes, got shape (2,)"),
        (Reshape((2, 3), (6,)), (3, 2), "takes shape (2, 3), got (3, 2)"),
        (Chunk(3), (4, 2), "3 equal parts along axis 0, got shape (4, 2)"),
        (Chunk(2, 2), (4, 2), "along axis 2, got shape (4, 2)"),
        (Chunk(2), (), "got shape ()"),
        (Chunk(2), (4,), "the rule names 1 tensors, its op returned 2"),
        (Fuse(2), (4,), "Fuse needs 2 tensors"),
    ],
    ids=str,
)
def test_an_op_that_cannot_apply_names_the_tensor_and_its_shape(op: Op, shape: tuple[int, ...], text: str) -> None:
    message = problems(lambda: convert({"x.w": torch.ones(shape)}, [Rule("x.w", "y.w", op)]))
    (line,) = [line for line in message.splitlines() if line.startswith("    x.w: ")]
    assert text in line


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (torch.ones(2), torch.ones(3)),
        (torch.ones(2), torch.ones(2, dtype=torch.float16)),
        (torch.ones(()), torch.ones(())),
    ],
    ids=["shape", "dtype", "no axis"],
)
def test_fuse_takes_only_equals(one: Tensor, two: Tensor) -> None:
    assert "a, b: Fuse needs" in problems(lambda: convert({"a": one, "b": two}, [Rule(("a", "b"), "c", Fuse(2))]))


def test_all_problems_come_in_one_error() -> None:
    state = theirs() | {"junk": torch.ones(1), "lm_head.weight": torch.zeros(WORDS, DIM), "cls": torch.ones(2, DIM)}
    del state["h.2.up.weight"]
    rules = [*table(), Rule("h.{i}.ln.bias", "again.{i}"), Ours("embed.weight", lambda: torch.ones(1))]
    text = problems(lambda: convert(state, rules))
    for wanted in (
        "junk: matched by no rule",
        "lm_head.weight: tied to embed.weight, but its values differ",
        "cls: Reshape takes shape (1, 1, 4), got (2, 4)",
        "h.2.up.weight: missing, but h.2.gate.weight",
        "embed.weight: assigned twice",
        *(f"h.{i}.ln.bias: matched by Rule" for i in range(DEPTH)),
    ):
        assert wanted in text
    assert "17 problems" in text


def test_the_error_is_an_input_error_with_all_its_parts() -> None:
    with pytest.raises(InputError) as caught:
        convert({"junk": torch.ones(1)}, [])
    assert {"what", "got", "expected", "fix"} <= caught.value.as_dict().keys()


# ----------------------------------------------------------------------------------------------- tied, ours, dropped


def test_tied_may_be_absent_or_equal_and_nothing_else() -> None:
    state, rules = theirs(), table()
    plain = convert(state, rules)
    assert same(convert(state | {"lm_head.weight": state["wte.weight"].clone()}, rules), plain)
    for wrong in (
        state["wte.weight"] + 1e-6,
        state["wte.weight"].double(),
        state["wte.weight"][:-1],
        state["wte.weight"].T,
    ):
        text = problems(lambda wrong=wrong: convert(state | {"lm_head.weight": wrong}, rules))
        assert "lm_head.weight: tied to embed.weight, but its values differ" in text


def test_tied_to_nothing_is_refused() -> None:
    text = problems(lambda: convert({"head": torch.ones(1)}, [Tied("head", "embed")]))
    assert "head: tied to embed, to which no tensor was assigned" in text


def test_tied_is_written_again_only_if_the_table_says_so() -> None:
    state = {"wte": torch.randn(3, 2), "head": torch.zeros(0)}
    state["head"] = state["wte"].clone()
    for written in (True, False):
        rules: list[Entry] = [Rule("wte", "embed"), Tied("head", "embed", written=written)]
        back = export(convert(state, rules), rules)
        assert same(back, state if written else {"wte": state["wte"]})


def test_tied_through_an_op_and_through_placeholders() -> None:
    x = torch.randn(3, 2)
    rules: list[Entry] = [Rule("wte", "embed"), Tied("head", "embed", written=True, op=Transpose())]
    state = {"wte": x, "head": x.T.clone()}
    assert same(export(convert(state, rules), rules), state)
    assert "head: tied to embed, but its values differ" in problems(lambda: convert({"wte": x, "head": x}, rules))
    assert "head: Transpose takes" in problems(lambda: convert({"wte": x, "head": x[None]}, rules))
    many: list[Entry] = [Rule("head.0", "head"), Tied("head.{i}", "head")]
    assert "head.0: matched by Rule 'head.0' and by Tied" in problems(lambda: convert({"head.0": x}, many))
    copies: list[Entry] = [Rule("head", "head"), Tied("heads.{i}", "head")]
    assert convert({"head": x, "heads.0": x, "heads.1": x}, copies).keys() == {"head"}
    assert "heads.1: tied" in problems(lambda: convert({"head": x, "heads.0": x, "heads.1": x + 1}, copies))


def test_ours_is_made_and_left_behind_only_while_unchanged() -> None:
    ours = convert(theirs(), table())
    assert "scale" not in export(ours, table())
    ours["scale"] = torch.tensor([0.6])
    assert "scale: its value has changed, and the target format cannot store it" in problems(
        lambda: export(ours, table())
    )


def test_a_tensor_of_ours_without_a_rule_stops_the_export() -> None:
    ours = convert(theirs(), table()) | {"extra.weight": torch.ones(1)}
    assert "extra.weight: matched by no rule" in problems(lambda: export(ours, table()))


def test_idle_is_not_converted_and_comes_back_as_it_is_made() -> None:
    """Beside each of ours; it may be missing."""
    table = [Rule("h.{i}.mean", "b.{i}.mean"), Idle("h.{i}.count", "b.{i}.mean", lambda: torch.tensor(0), "unused")]
    theirs = {"h.0.mean": torch.ones(2), "h.1.mean": torch.zeros(2), "h.1.count": torch.tensor(7)}
    ours = convert(theirs, table)
    assert list(ours) == ["b.0.mean", "b.1.mean"]
    back = export(ours, table)
    assert sorted(back) == ["h.0.count", "h.0.mean", "h.1.count", "h.1.mean"]
    assert back["h.1.count"].dtype == torch.int64
    assert back["h.1.count"] == 0


def test_dropped_is_not_converted_and_comes_not_back() -> None:
    state = theirs() | {"h.4.mask": torch.ones(3, 3)}
    ours = convert(state, table())
    assert same(ours, convert(theirs(), table()))
    assert "h.4.mask" not in export(ours, table())


# ------------------------------------------------------------------------------------------------- slips of a table


@pytest.mark.parametrize(
    "make",
    [
        lambda: Rule("a.{i}", "b"),
        lambda: Rule("a", "b.{i}"),
        lambda: Rule(("a.{i}", "b"), "c.{i}"),
        lambda: Rule("a.{i}", "b.{j}"),
        lambda: Rule("a", ()),
        lambda: Rule((), "a"),
        lambda: Rule("a.h{i}", "b.{i}"),
        lambda: Rule("a.{i", "b"),
        lambda: Rule("a.{}", "b.{}"),
        lambda: Rule("a..b", "c"),
        lambda: Rule("", "c"),
        lambda: Tied("head", "embed.{i}"),
        lambda: Tied("head.{i}", "embed", written=True),
        lambda: Ours("a.{i}", lambda: torch.ones(1)),
        lambda: Dropped("a", " "),
        lambda: Idle("a", "b", lambda: torch.zeros(1), " "),
        lambda: Idle("a.{i}", "b", lambda: torch.zeros(1), "x"),
        lambda: Dropped("a.{", "why"),
        lambda: Permute((0, 0)),
        lambda: Permute((1, 2)),
        lambda: Reshape((2, 3), (5,)),
        lambda: Reshape((-1, 2), (2, -1)),
        lambda: Chunk(0),
        lambda: Fuse(-1),
    ],
)
def test_a_table_that_cannot_be_right_is_refused_at_once(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make()
    assert not isinstance(caught.value, CheckpointError)  # a fault of ours, not of the file


# ------------------------------------------------------------------------------------------------------ from shapes


def test_a_conversion_is_checked_from_shapes_alone() -> None:
    header = {name: tuple(x.shape) for name, x in theirs().items()}
    expected = {name: tuple(x.shape) for name, x in convert(theirs(), table()).items()}
    assert shapes(header | {"lm_head.weight": (WORDS, DIM)}, table()) == expected
    huge = {"a": (2**40, 3)}  # four terabytes: nothing can have been allocated
    assert shapes(
        huge, [Rule("a", ("b", "c"), Chain(Transpose(), Chunk(3), Fuse(3), Chunk(3), Fuse(3), Transpose(), Chunk(2)))]
    ) == {
        "b": (2**39, 3),
        "c": (2**39, 3),
    }


def test_shapes_find_the_same_problems_as_the_data() -> None:
    state = theirs() | {"junk": torch.ones(1), "cls": torch.ones(2, DIM), "h.0.attn.bias": torch.ones(7)}
    del state["h.2.up.weight"]
    from_data = problems(lambda: convert(state, table()))
    assert problems(lambda: shapes({name: tuple(x.shape) for name, x in state.items()}, table())) == from_data
    wrong = {name: tuple(x.shape) for name, x in theirs().items()} | {"lm_head.weight": (WORDS + 1, DIM)}
    assert "lm_head.weight: tied to embed.weight, but its values differ" in problems(lambda: shapes(wrong, table()))


def test_meta_tensors_convert_and_export() -> None:
    state = {name: x.to("meta") for name, x in theirs().items()} | {
        "lm_head.weight": torch.empty(WORDS, DIM, device="meta")
    }
    ours = convert(state, table())
    assert ours["blocks.0.q.weight"].is_meta
    assert {k: v.shape for k, v in export(ours, table()).items()} == {k: v.shape for k, v in theirs().items()}


def test_buffers_of_ours_are_not_allocated_for_shapes() -> None:
    assert shapes({}, [Ours("mask", lambda: torch.ones(2**30, 2**20))]) == {"mask": (2**30, 2**20)}


# -------------------------------------------------------------------------------------------------------------- fit


def test_fit_says_nothing_when_all_fits() -> None:
    check_tensors({"a": (1, 2), "b": ()}, {"b": (), "a": (1, 2)}, "somewhere")


def test_fit_lists_all_that_is_missing_unexpected_or_misshapen() -> None:
    expected = {f"blocks.{i}.weight": (2, 3) for i in range(300)} | {"head": (5,), "a": (1,)}
    found = {"a": (1,), "head": (5, 1), "junk.b": (), "junk.a": (9,)}
    text = problems(lambda: check_tensors(expected, found, "folder/model.safetensors"))
    lines = text.splitlines()
    assert lines[0] == "the tensors do not match the model: 300 missing, 2 unexpected, 1 of the wrong shape"
    assert "folder/model.safetensors" in text
    assert all(f"      blocks.{i}.weight (2, 3)" in lines for i in range(50))
    assert lines[lines.index("      blocks.49.weight (2, 3)") + 1] == "      and 250 more"
    assert lines.index("      blocks.2.weight (2, 3)") < lines.index("      blocks.10.weight (2, 3)")
    assert "      junk.a (9,)" in lines
    assert "      junk.b ()" in lines
    assert "      head (5, 1), expected (5,)" in lines
    assert not any(line.strip().startswith("a ") for line in lines)


shape = st.tuples(st.integers(0, 3), st.integers(0, 3))
headers = st.dictionaries(st.sampled_from("abcdef"), shape)


@given(headers, headers)
def test_fit_passes_exactly_what_is_equal(
    expected: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]
) -> None:
    if expected == found:
        check_tensors(expected, found, "x")
        return
    lines = [line.strip() for line in problems(lambda: check_tensors(expected, found, "x")).splitlines()]
    for name in "abcdef":
        wrong = expected.get(name) != found.get(name)
        assert sum(line.startswith(f"{name} (") for line in lines) == wrong


def test_in_order_counts_as_people_do_and_survives_any_name() -> None:
    assert in_order({"a.10", "a.9", "a.b", "a"}) == ["a", "a.9", "a.10", "a.b"]
    assert len(in_order({"1" * 10_000, "٣.²", "..", ""})) == 4
