#!/usr/bin/env python3
"""Writes docs/reference/gristmill.schema.json, by which editors complete and check `gristmill.toml`, from the tables of docs/reference/manifest.md.

    packaging/schema.py            writes it
    packaging/schema.py --check    fails if it is another one

A test of gristmill-config compares its keys with those that the reader of the manifest knows.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parent.parent
PAGE, SCHEMA = ROOT / "docs/reference/manifest.md", ROOT / "docs/reference/gristmill.schema.json"
TEXT = {"type": "string"}
SECRET = {
    "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": False,
    "properties": {"env": {"type": "string"}, "file": {"type": "string"}},
}  # fmt: skip
# Of a topic: requests to these hosts carry the secret, and its handler does not see it.
SECRET_WITH_HOSTS = {**SECRET, "maxProperties": 2, "properties": {**SECRET["properties"], "hosts": {"type": "array", "minItems": 1, "items": TEXT}}}
UNITS = {
    "duration": {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d))+$"},
    "size": {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+(B|[kKMG]B|[KMG]iB)$"}]},
    "count": {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+[kMGT]?$"}]},
}
# Tables whose keys have no table of their own on the page.
FILES = {"ca": TEXT, "certificate": TEXT, "key": TEXT}
INLINE = {("[store]", "tls"): FILES, ("[http]", "tls"): {key: FILES[key] for key in ["certificate", "key"]}}


def table(properties: dict) -> dict:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def named(schema: dict) -> dict:
    return {"type": "object", "additionalProperties": schema}


def plain(markdown: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown).replace("`", "").strip()


def kind(written: str, bounds: str) -> dict:
    """The schema of a value, by the column `type` of its row."""
    words = plain(written)
    if literals := re.findall(r'"([^"]*)"', words):
        if set(re.sub(r'"[^"]*"|,|\bor\b', "", words).split()) == set():
            return {"enum": literals}
        first = kind(words.split(",")[0], bounds)
        return {"anyOf": [first, {"enum": literals}]} if first != TEXT else TEXT
    if words in UNITS:
        return UNITS[words]
    if words == "number":
        limits = re.fullmatch(r"([0-9]+) to ([0-9]+)", plain(bounds))
        return {"type": "integer"} | ({"minimum": int(limits[1]), "maximum": int(limits[2])} if limits else {})
    return {
        "number with a point": {"type": "number"},
        "boolean": {"type": "boolean"},
        "true or false": {"type": "boolean"},
        "duration or table": UNITS["duration"],
        "address, or a secret": {"anyOf": [TEXT, SECRET]},
        "table of strings": named(TEXT),
        "table of secrets": named(SECRET),
        "table of secrets with hosts": named(SECRET_WITH_HOSTS),
        "table of strings or secrets with hosts": named({"anyOf": [TEXT, SECRET_WITH_HOSTS]}),
        "table": {"type": "object"},
        "tables": {"type": "object"},
    }.get(words) or ({"type": "array", "items": TEXT} if words.startswith("array of") else TEXT)


def sections() -> dict[str, dict]:
    """The keys of each heading that has a table of them."""
    found, heading = {}, ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("#"):
            heading = (re.search(r"`([^`]*)`", line) or ["", ""])[1]
        cells = [cell.strip().replace("\0", "|") for cell in line.replace("\\|", "\0").strip("|").split("|")]
        if not line.startswith("| `") or len(cells) != 5:
            continue
        for key in re.findall(r"`([^`]+)`", cells[0]):
            schema = table(INLINE[heading, key]) if (heading, key) in INLINE else kind(cells[1], cells[3])
            what = plain(cells[4]) + (f" Default: {plain(cells[2])}." if cells[2] else "")
            found.setdefault(heading, {})[key] = {"description": what, **schema}
    return found


def schema() -> dict:
    page = sections()
    topic = page["[topics.NAME]"]
    for key in ["per-key", "http"]:
        topic[key] |= table(page[key])
    topic["schedule"] |= named(table(page["schedule"]))
    topic["backoff"] = {"description": topic["backoff"]["description"], "anyOf": [UNITS["duration"], table(page["backoff"])]}
    for key in ["exit-codes", "status-codes"]:
        topic[key] |= named({"enum": ["ack", "retry", "dead"]})
    without = {key for key, value in topic.items() if "Not in defaults" in value["description"]}
    defaults = table({key: value for key, value in topic.items() if key not in without})
    limits = {"$ref": "#/$defs/limits"}
    topics = named({"$ref": "#/$defs/topic"})
    tenant = {"store": TEXT, "defaults": {"$ref": "#/$defs/defaults"}, "topics": topics, "bounds": table(page["[tenants.NAME.bounds]"]), "limits": limits}
    store = table(page["[store]"])
    root = {name: table(page[f"[{name}]"]) for name in ["server", "http", "page", "lmstfy", "handlers", "otel", "journal", "audit"]}
    root |= {"store": {"$ref": "#/$defs/store"}, "stores": named({"$ref": "#/$defs/store"}), "topics": topics, "limits": limits}
    root |= {"defaults": {"$ref": "#/$defs/defaults"}, "tenants": named(table(tenant))}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "gristmill.toml: the manifest of Gristmill",
        **table(root),
        "$defs": {"store": store, "topic": table(topic), "defaults": defaults, "limits": table(page["[tenants.NAME.limits]"])},
    }


def main() -> None:
    made = json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
    if sys.argv[1:] == ["--check"]:
        if SCHEMA.read_text() != made:
            sys.exit(f"{SCHEMA.relative_to(ROOT)} differs from the tables of {PAGE.name}: run packaging/schema.py")
        return
    SCHEMA.write_text(made)


if __name__ == "__main__":
    main()
