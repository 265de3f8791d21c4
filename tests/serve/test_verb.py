"""`regard serve`: what it says, what it refuses, how it ends, and what is not imported without it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from regard.cli.app import main
from regard.serve.sockets import bind_socket

SAID = {**os.environ, "PYTHONUNBUFFERED": "1"}


@pytest.mark.slow  # a process of its own, which loads all of torch
def test_it_serves_until_it_is_interrupted(tmp_path) -> None:
    model = tmp_path / "my run" / "model"
    model.mkdir(parents=True)
    for file in (model / "regard.json", model.parent / "run.toml"):
        file.write_text("")
    words = [sys.executable, "-m", "regard", "serve", "--port", "0", "--runs", str(tmp_path)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("regard is serving at http://127.0.0.1:")
            address = line.split()[4]
            end = time.monotonic() + 60
            while time.monotonic() < end:
                try:
                    answer = httpx2.get(f"{address}api/v1/openapi.json", timeout=30)
                    break
                except httpx2.HTTPError:
                    time.sleep(0.1)
            assert answer.status_code == 200
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert out == "regard has stopped\n"
    assert errors.startswith("regard: skipping the run 'my run': rename it: the name may have letters")
    assert errors.endswith("at most 100 characters\n")
    assert errors.count("\n") == 1


def test_a_port_that_is_taken_is_named(capsys) -> None:
    with bind_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert f"127.0.0.1:{port}" in (errors := capsys.readouterr().err)
    assert "already in use" in errors


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "127.0.0.2", "example.org", ""])
def test_other_machines_may_not_ask_without_a_token(capsys, host) -> None:
    assert main(["serve", "--host", host]) == 2
    assert "--token" in capsys.readouterr().err


def test_threads_that_wait_do_not_keep_others_from_computing(monkeypatch) -> None:
    """With the default, 32 looks at once took six times as much of the processor on a machine that was busy."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert main(["serve", "--token", "1234"]) == 2
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE", "who has chosen is not overruled"
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert main(["serve", "--token", "1234"]) == 2
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


@pytest.mark.slow  # processes of their own
def test_several_workers_serve_and_end_together(tmp_path) -> None:
    words = [sys.executable, "-m", "regard", "serve", "--port", "0", "--runs", str(tmp_path), "--workers", "2"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=SAID) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[4]
            given = {"model": "recall", "input": {"kind": "text", "text": "Anna sings ."}}
            answer = httpx2.post(f"{address}api/v1/look", json=given, timeout=60)
            assert answer.status_code == 200
            shown = httpx2.get(f"{address}api/v1/looks/{answer.json()['id']}/thumbnails", timeout=60)
            assert shown.status_code == 200
            own = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            workers = own.read_text().split() if own.exists() else []
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out, errors) == (0, "regard has stopped\n", "")
    assert not [one for one in workers if Path(f"/proc/{one}").exists()]


def test_a_token_is_hard_to_guess(capsys) -> None:
    assert main(["serve", "--host", "0.0.0.0", "--token", "1234"]) == 2
    assert "invalid token" in capsys.readouterr().err
    assert main(["serve", "--port", "99999"]) == 2


def test_an_address_that_is_not_here_is_refused(capsys) -> None:
    assert main(["serve", "--host", "192.0.2.1", "--token", "a" * 20]) == 2
    assert "cannot bind" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys) -> None:
    from regard.cli import serve

    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    assert main(["serve"]) == 2
    assert "pip install fastapi" in capsys.readouterr().err


def test_nothing_of_it_is_imported_without_it() -> None:
    script = "import regard, sys; from regard.cli.app import main; main(['--help']); main(['serve', '--help']);"
    script += "print([name for name in ('torch', 'fastapi', 'uvicorn') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")
