"""The commands that compute figures: what is not understood is refused before anything is computed or written."""

from pathlib import Path

import pytest

from regard_lectures import gallery, recheck, records


def test_help_computes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        gallery.main(["--help"])
    assert left.value.code == 0
    assert "usage" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["out", "--redrawn"], ["out", "99.9"], []])
def test_what_is_unknown_is_refused(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        gallery.main(words)
    assert left.value.code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_redrawn_figure_keeps_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = (records.RESULTS / "2.4.json").read_bytes()
    monkeypatch.setattr(records, "RESULTS", tmp_path / "results")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "2.4.json").write_bytes(before)
    gallery.main([str(tmp_path / "gallery"), "2.4", "--redraw"])
    assert (tmp_path / "results" / "2.4.json").read_bytes() == before
    assert (tmp_path / "gallery" / "2.4.png").stat().st_size > 1000


def test_an_unknown_figure_is_not_rechecked(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        recheck.main(["99.9"])
    assert left.value.code == 2
    assert "unknown figure: 99.9" in capsys.readouterr().err
