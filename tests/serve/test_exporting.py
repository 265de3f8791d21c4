"""A look as one file."""

from .conftest import API, look


def test_a_look_is_one_file(client) -> None:
    found = look(client, "recall")
    answer = client.get(f"{API}/looks/{found['id']}/export.html")
    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    assert found["id"] in answer.text
    assert "Content-Security-Policy" in answer.headers
