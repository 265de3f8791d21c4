"""Uploads: what is taken, how much of it, how long it is kept; and that a look at one is that of its bytes."""

import base64
import json

import pytest

from regard.modalities.page_inputs import PAGE_INPUTS, every_input
from regard.serve.limits import LARGEST_UPLOAD, Limits
from regard.serve.refusals import RefusedError
from regard.serve.uploads import Uploads, sent_as, type_of

from .conftest import API, check_clean, client_with, look
from .pictures import shown

ADDRESS = f"{API}/upload"


def raw() -> bytes:
    return base64.b64decode(shown()["png"].partition(",")[2])


def send(client, body, kind="image/png"):
    answer = client.post(ADDRESS, content=body, headers={"Content-Type": kind} if kind else {})
    check_clean(answer)
    return answer


def test_a_look_at_an_upload_is_that_of_its_bytes(client) -> None:
    told = send(client, raw()).json()
    assert told == {"id": told["id"], "type": "image/png", "bytes": len(raw())}
    assert send(client, raw(), "application/octet-stream").json() == told  # the same bytes, the same id
    assert look(client, "digits", {"kind": "image", "upload": told["id"]}) == look(client, "digits", shown())
    body = {"model": "digits", "input": {"kind": "image", "upload": told["id"]}}
    assert client.post(f"{API}/run", json=body).json()["answer"] == look(client, "digits", shown())["answer"]


def test_a_file_that_is_too_large_is_refused_before_it_has_come(client) -> None:
    came = []

    def pieces():
        for i in range(2 * LARGEST_UPLOAD >> 16):
            came.append(i)
            yield b"\x89PNG\r\n\x1a\n".ljust(1 << 16, b"x")

    assert send(client, b"x" * (LARGEST_UPLOAD + 1)).status_code == 413
    assert send(client, pieces()).status_code == 413
    assert send(client, b"\x89PNG\r\n\x1a\n".ljust(LARGEST_UPLOAD, b"x")).status_code == 200  # nothing is decoded yet


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data", "application/json", "image/svg+xml", ""])
def test_what_is_called_something_else_is_refused(client, kind) -> None:
    assert send(client, raw(), kind).status_code == 415


@pytest.mark.parametrize(("body", "kind"), [(b"GIF89b", "image/gif"), (b"<svg>", "image/png"), (b"", "image/png"),
                                            (b"MZ\x90", "application/octet-stream")])  # fmt: skip
def test_the_first_bytes_tell_what_it_is(client, body, kind) -> None:
    assert send(client, body, kind).status_code == 415


def test_the_first_bytes_must_be_of_what_it_is_called(client) -> None:
    assert send(client, raw(), "image/jpeg").status_code == 415
    assert type_of(raw(), "image/png") == type_of(raw(), "application/octet-stream") == "image/png"
    assert "image/webp" in sent_as()
    with pytest.raises(RefusedError):
        type_of(raw(), "image/gif")


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"kind": "image", "upload": "0" * 32}, 404),
        ({"kind": "image", "upload": "../../etc/passwd"}, 422),
        ({"kind": "image", "upload": "0" * 31}, 422),
        ({"kind": "image"}, 422),
        ({"kind": "image", "upload": "0" * 32, "png": "data:image/png;base64,AAAA"}, 422),
    ],
)
def test_an_id_that_is_none_is_refused(client, given, status) -> None:
    for path in ("run", "look"):
        answer = client.post(f"{API}/{path}", json={"model": "digits", "input": given})
        assert answer.status_code == status
        check_clean(answer)


def test_what_is_uploaded_and_cannot_be_decoded_is_refused_when_it_is_looked_at(client) -> None:
    told = send(client, raw()[:60]).json()
    answer = client.post(f"{API}/look", json={"model": "digits", "input": {"kind": "image", "upload": told["id"]}})
    assert answer.status_code == 422
    check_clean(answer)


def test_the_oldest_is_dropped_and_comes_back_by_the_same_id(shelf) -> None:
    with client_with(shelf, Limits(uploads=len(raw()) + 10)) as client:
        first = send(client, raw()).json()["id"]
        body = {"model": "digits", "input": {"kind": "image", "upload": first}}
        assert client.post(f"{API}/look", json=body).status_code == 200
        send(client, raw() + b"x")
        gone = client.post(f"{API}/run", json=body)
        assert gone.status_code == 410
        check_clean(gone)
        assert send(client, raw()).json()["id"] == first
        assert client.post(f"{API}/run", json=body).status_code == 200
        assert send(client, raw().ljust(len(raw()) + 11)).status_code == 413  # larger than all the room there is


def test_those_in_use_stay() -> None:
    kept = Uploads(room=10)
    one, two = kept.put(b"aaaa"), kept.put(b"bbbb")
    kept.get(one)
    kept.put(b"cccc")
    assert kept.get(one) == b"aaaa"
    with pytest.raises(RefusedError) as refused:
        kept.get(two)
    assert refused.value.status == 410
    assert sum(map(len, kept.kept.values())) <= 10


def test_every_row_opens_with_an_input_that_it_accepts() -> None:
    for row in PAGE_INPUTS.values():
        example = row.example("", ())
        made = [one.model_validate_json(json.dumps(example)) for one in row.accepts if kind(one) == example["kind"]]
        assert len(made) == 1
    assert len({kind(one) for one in every_input()}) == len(every_input())


def kind(one) -> str:
    return one.model_fields["kind"].annotation.__args__[0]
