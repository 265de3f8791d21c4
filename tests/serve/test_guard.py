"""Who may ask, how much, and that nothing lies beyond the page's own files."""

import asyncio
import itertools
import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from fastapi.testclient import TestClient

import regard
from regard.serve import pages
from regard.serve.app import application
from regard.serve.limits import LARGEST_BODY, Limits
from regard.serve.model_list import ModelShelf

from .conftest import API, HERE, INPUTS, check_clean, client_with

METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]
GOOD = ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080"]
BAD = ["evil.example", "evil.example:8080", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8080.evil.example", "localhost", "",
       "127.0.0.1:8080@evil.example", "0.0.0.0:8080", "127.1:8080", "[::ffff:127.0.0.1]:8080",
       "localhost.:8080"]  # fmt: skip


@pytest.mark.parametrize("host", GOOD)
def test_its_own_names_are_served(client, host) -> None:
    assert client.get(f"{API}/openapi.json", headers={"Host": host}).status_code == 200
    origin = {"Host": host, "Origin": f"http://{host.lower()}"}
    assert client.get(f"{API}/openapi.json", headers=origin).status_code == 200


@pytest.mark.parametrize("host", BAD)
def test_another_name_is_refused_on_every_method(client, host) -> None:
    for method in METHODS:
        answer = client.request(method, f"{API}/openapi.json", headers={"Host": host})
        assert answer.status_code == 400, method


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:8080", "http://127.0.0.1:8081", "http://localhost:8080", "file://",
     "http://127.0.0.1:8080/", "http://127.0.0.1:8080.evil.example", ""],
)  # fmt: skip
def test_another_origin_is_refused_on_every_method(client, origin) -> None:
    for method in METHODS:
        answer = client.request(method, f"{API}/openapi.json", headers={"Origin": origin})
        assert answer.status_code == 400, method


def test_a_page_of_another_site_may_lead_here_but_not_ask(client) -> None:
    there = {"Sec-Fetch-Site": "cross-site"}
    assert client.get("/", headers=there | {"Sec-Fetch-Mode": "navigate"}).status_code == 200
    assert client.get(f"{API}/figures", headers=there | {"Sec-Fetch-Mode": "no-cors"}).status_code == 400


@pytest.mark.parametrize("path", ["/", "/nothing", f"{API}/openapi.json", f"{API}/docs", f"{API}/figures/2.1.svg"])
def test_every_answer_has_the_headers_that_protect_it(client, path) -> None:
    answer = client.get(path)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src")
    assert "http:" not in policy
    assert "https:" not in policy
    assert "cache-control" in answer.headers
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "text/json"]
)
def test_a_body_of_another_kind_is_refused(client, kind) -> None:
    """A page of another site may send these without asking first."""
    body = json.dumps({"model": "recall", "input": INPUTS["recall"]})
    answer = client.post(f"{API}/run", content=body, headers={"Content-Type": kind} if kind else {})
    assert answer.status_code == 400
    check_clean(answer)


def test_too_much_is_refused(client) -> None:
    large = client.post(f"{API}/run", content=b"x" * (LARGEST_BODY + 1), headers={"Content-Type": "application/json"})
    assert large.status_code == 413

    def pieces():
        for _ in range(LARGEST_BODY // (1 << 16) + 2):
            yield b" " * (1 << 16)

    streamed = client.post(f"{API}/run", content=pieces(), headers={"Content-Type": "application/json"})
    assert streamed.status_code == 413
    assert client.get(f"{API}/models", headers={f"x-{i}": "1" for i in range(100)}).status_code == 400
    assert client.get(f"{API}/models", headers={"x-large": "1" * 20_000}).status_code == 400
    assert client.get(f"{API}/models?x={'1' * 5000}").status_code == 400
    for answer in (large, streamed):
        check_clean(answer)
    for size in ("-1", "x", "1, 1", "9" * 30):
        headers = {"Content-Type": "application/json", "Content-Length": size}
        answer = client.post(f"{API}/run", content=b"{}", headers=headers)
        assert answer.status_code in (400, 413)


def test_a_token_is_asked_for_on_every_address(shelf) -> None:
    token = "abcdefgh-0123456789"
    with client_with(shelf, Limits(token=token)) as client:
        for path in ("/", f"{API}/models", f"{API}/openapi.json", f"{API}/docs", "/nothing"):
            answer = client.get(path)
            assert answer.status_code == 401
            assert token not in answer.text
        assert client.get("/", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        assert client.get("/", headers={"Authorization": f"Bearer {token}x"}).status_code == 401
        assert client.get("/?token=wrong").status_code == 401
        welcome = client.get(f"/?token={token}", follow_redirects=False)
        assert welcome.status_code == 303
        assert "HttpOnly" in welcome.headers["set-cookie"]
        assert client.get(f"{API}/openapi.json").status_code == 200  # with the cookie
        assert client.get(f"{API}/openapi.json", headers={"Host": "other:8080"}).status_code == 200
        assert client.get(f"{API}/openapi.json", headers={"Origin": "http://evil.example"}).status_code == 400


def test_a_fault_is_told_by_a_number_alone(shelf, monkeypatch, capsys) -> None:
    from regard.serve import app

    def broken(*given):
        raise RuntimeError("secret of /etc/passwd at 0x7f0000000000")

    monkeypatch.setattr(app, "answer", broken)
    with client_with(shelf, Limits()) as client:
        answer = client.post(f"{API}/run", json={"model": "recall", "input": INPUTS["recall"]})
    assert answer.status_code == 503
    assert "secret" not in answer.text
    number = answer.json()["error"]["fix"].split()[-1]
    errors = capsys.readouterr().err
    assert number in errors
    assert errors.count("RuntimeError: secret of") == 1


# Files -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page with files beside it that nobody may have."""
    folder = tmp_path_factory.mktemp("site") / "page"
    (folder / "js").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>page")
    (folder / "js" / "app.js").write_text("1")
    (folder / "style.css").write_text("a {}")
    (folder / "notes.txt").write_text("SECRET")
    (folder / ".hidden.js").write_text("SECRET")
    (folder.parent / "secret.js").write_text("SECRET")
    (folder / "link.js").symlink_to(folder.parent / "secret.js")
    return folder


@pytest.fixture(scope="module")
def site(page):
    patched, kept = pages.known.__defaults__, pages.known.__defaults__
    pages.known.__defaults__ = (page,)
    try:
        made = application(ModelShelf())
    finally:
        pages.known.__defaults__ = kept
    assert patched == kept
    with TestClient(made, base_url=HERE) as client:
        yield client


def test_the_files_of_the_page_are_served(site) -> None:
    assert "page" in site.get("/").text
    assert site.get("/").headers["content-type"].startswith("text/html")
    assert site.get("/js/app.js").headers["content-type"].startswith("text/javascript")
    assert site.get("/style.css").headers["content-type"].startswith("text/css")
    for path in ("/notes.txt", "/.hidden.js", "/link.js", "/secret.js", "/js", "/js/", "/index.html/"):
        assert site.get(path).status_code == 404, path


def traversals():
    """Some two thousand ways to write a path that leads out."""
    ups = [
        "..",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "..;",
        "%252e%252e",
        "..%00",
        "%c0%ae%c0%ae",
        "．．",
        "....",
        "..%5c",
        "..\\",
    ]
    slashes = ["/", "%2f", "%5c", "\\", "//", "%252f", "/./", "%c0%af"]
    targets = ["secret.js", "etc/passwd", "regard.json", "__init__.py", "guard.py", "pyproject.toml"]
    heads = ["/", "/js/", f"{API}/", f"{API}/figures/"]
    for head, up, slash, target in itertools.product(heads, ups, slashes, targets):
        yield head + (up + slash) * 4 + target
    for name in ("/etc/passwd", "/proc/self/environ", "C:\\Windows\\win.ini", "file:///etc/passwd", "/dev/zero"):
        for head in ("/", "//", f"{API}/figures/", f"{API}/looks/"):
            yield head + name
            yield head + name.replace("/", "%2f")


def test_no_path_leads_out(site) -> None:
    every = list(dict.fromkeys(traversals()))
    assert len(every) >= 2000
    for path, (status, body) in zip(every, asyncio.run(asked(site.app, every)), strict=True):
        assert status == 404, path
        assert json.loads(body) == {"error": {"what": "unknown address"}}


async def asked(app, paths):
    """As a server would hand them on, letter by letter: a client would tidy them up."""
    found = []
    for path in paths:
        sent = []

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message, sent=sent):
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": unquote(path), "raw_path": path.encode(), "query_string": b"", "root_path": "",
            "headers": [(b"host", b"127.0.0.1:8080")], "server": ("127.0.0.1", 8080), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        await app(scope, receive, send)
        found.append((sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])))
    return found


@pytest.mark.parametrize(
    "place", ["looks/{}/thumbnails", "looks/{}/maps/x?head=0", "figures/{}.svg", "looks/{}/export.html"]
)
@pytest.mark.parametrize(
    "name", ["..", "..%2f..", "%2e%2e%5c", "a'b", "%00", "%ff", "'", "${x}", "<script>", "x" * 300]
)
def test_odd_ids_are_not_found(client, place, name) -> None:
    answer = client.get(f"{API}/{place.format(name)}")
    assert answer.status_code == 404
    check_clean(answer)


def test_the_package_has_no_page_of_another_kind() -> None:
    assert {Path(name).suffix for name in pages.known()} <= set(pages.MEDIA_TYPES)
    assert Path(regard.__file__).parent in pages.FOLDER.parents


def test_the_policy_admits_what_media_need_and_nothing_foreign(client) -> None:
    parts = dict(
        part.split(maxsplit=1) for part in client.get("/").headers["content-security-policy"].split(";") if part.strip()
    )
    assert parts["default-src"] == parts["script-src"] == parts["connect-src"] == "'self'"
    assert parts["media-src"] == parts["worker-src"] == "'self' blob:"
    assert parts["img-src"] == "'self' data: blob:"
    words = {word for sources in parts.values() for word in sources.split()}
    assert words == {"'self'", "'none'", "data:", "blob:"}


@pytest.mark.parametrize("path", ["/", "/style.css", f"{API}/models", f"{API}/docs", "/nothing", f"{API}/nothing"])
def test_head_tells_what_get_would(client, path) -> None:
    got, told = client.get(path), client.head(path)
    assert told.status_code == got.status_code
    assert told.content == b""
    for name in ("content-type", "content-length", "content-security-policy"):
        assert told.headers[name] == got.headers[name]
