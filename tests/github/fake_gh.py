"""A `gh` on PATH that answers from a folder: comments, pull requests and artifacts, and a log of what was asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SCRIPT = "#!/bin/sh\nexec '{python}' '{here}' '{state}' \"$@\"\n"


def install_gh(folder: Path, state: Path) -> None:
    """Put a `gh` that keeps its state in a JSON file into a folder, for PATH."""
    folder.mkdir(parents=True)
    (folder / "gh").write_text(SCRIPT.format(python=sys.executable, here=__file__, state=state), encoding="utf-8")
    (folder / "gh").chmod(0o755)


def main(state: Path, words: list[str]) -> None:
    assert words.pop(0) == "api"
    method, fields, address = "GET", {}, ""
    while words:
        word = words.pop(0)
        if word == "--method":
            method = words.pop(0)
        elif word in ("-f", "-F"):
            name, _, text = words.pop(0).partition("=")
            file = word == "-F" and text.startswith("@")
            fields[name] = Path(text[1:]).read_text(encoding="utf-8") if file else text
        elif not word.startswith("--"):
            address = word
    known = json.loads(state.read_text(encoding="utf-8"))
    answer = _answer(known, method, address, fields)
    known["asked"].append([method, address])
    state.write_text(json.dumps(known), encoding="utf-8")
    if isinstance(answer, bytes):
        sys.stdout.buffer.write(answer)
    else:
        print(answer)


def _answer(known: dict, method: str, address: str, fields: dict[str, str]) -> str | bytes:
    path = urlsplit(address).path
    fields = {**{name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}, **fields}
    match [method, *path.removeprefix("repos/team/models/").split("/")]:
        case ["GET", "pulls"]:
            assert fields["state"] == "all"
            return json.dumps([one for one in known["pulls"] if one["label"] == fields["head"]])
        case ["GET", "actions", "runs", _, "artifacts"]:
            listed = [{**one, "size_in_bytes": one.get("size_in_bytes", 1000)} for one in known["artifacts"]]
            half = len(listed) // 2  # two pages, as `--paginate` prints them
            return json.dumps({"artifacts": listed[:half]}) + json.dumps({"artifacts": listed[half:]})
        case ["GET", "actions", "artifacts", number, "zip"]:
            return Path(next(one["file"] for one in known["artifacts"] if one["id"] == int(number))).read_bytes()
        case ["GET", "issues", number, "comments"]:
            found = [one for one in known["comments"] if one["issue"] == int(number)]
            return json.dumps(found[:1]) + json.dumps(found[1:])
        case ["POST", "issues", number, "comments"]:
            new = {"id": 1000 + len(known["comments"]), "issue": int(number), "user": {"login": "github-actions[bot]"}}
            known["comments"].append({**new, "body": fields["body"]})
            return ""
        case ["PATCH", "issues", "comments", number]:
            (own,) = (one for one in known["comments"] if one["id"] == int(number))
            own["body"] = fields["body"]
            return ""
    raise SystemExit(f"gh: not expected: {method} {address}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
