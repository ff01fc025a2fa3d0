#!/usr/bin/env python3
"""Checks the list of dependencies against deny.toml: licences, sources, versions. `scripts/deny.sh` calls it.

These are the rules of cargo-deny that a change can break, without the minutes that cargo-deny takes to compile.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict


def allows(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression can be met by what is allowed."""
    tokens = re.findall(r"\(|\)|[^\s()/]+|/", expression)

    def licence() -> bool:
        token = tokens.pop(0)
        if token == "(":
            met = either()
            tokens.pop(0)
            return met
        if tokens[:1] == ["WITH"]:
            tokens.pop(0)
            token = f"{token} WITH {tokens.pop(0)}"
        return token in allowed

    def both() -> bool:
        met = licence()
        while tokens[:1] == ["AND"]:
            tokens.pop(0)
            met &= licence()
        return met

    def either() -> bool:
        met = both()
        # A slash is how old manifests write OR.
        while tokens[:1] in (["OR"], ["/"]):
            tokens.pop(0)
            met |= both()
        return met

    return either()


def problems(deny: dict, packages: list[dict]) -> list[str]:
    allowed = set(deny["licenses"]["allow"])
    found = []
    for package in packages:
        name, source = f"{package['name']} {package['version']}", package["source"]
        if source is None:
            # A crate of this workspace. Its dependencies on the others are paths.
            found += [
                f"{name} takes any version of {needed['name']}"
                for needed in package["dependencies"]
                if needed["req"] == "*" and "path" not in needed
            ]
        elif not source.startswith("registry+"):
            found.append(f"{name} comes from {source}, which is not the registry")
        if source and not allows(package["license"] or "none", allowed):
            found.append(f"{name} has the licence {package['license'] or 'none'}, which deny.toml does not allow")
    return found


def order(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version.split("+")[0])]


def versions(deny: dict) -> list[str]:
    """Crates that are in the program in several versions, but for those that deny.toml explains, and explanations that no longer hold."""
    explained = {entry["crate"] for entry in deny["bans"]["skip"]}
    command = ["cargo", "tree", "--locked", "--package", "gristmill", "--edges", "normal", "--prefix", "none", "--format", "{p}"]
    tree = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    by_name = defaultdict(set)
    for name, version, *_ in map(str.split, tree.splitlines()):
        by_name[name].add(version.removeprefix("v"))
    there = {f"{name}@{version}" for name, several in by_name.items() for version in several if len(several) > 1}
    newest = {f"{name}@{max(several, key=order)}" for name, several in by_name.items()}
    return [
        *(f"{crate} is there beside a newer version: take one, or explain it in deny.toml" for crate in sorted(there - newest - explained)),
        *(f"deny.toml explains {crate}, which is not there any more" for crate in sorted(explained - there)),
    ]


def main() -> None:
    with open("deny.toml", "rb") as file:
        deny = tomllib.load(file)
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--all-features"]
    packages = {}
    for target in deny["graph"]["targets"]:
        read = subprocess.run([*command, "--filter-platform", target], stdout=subprocess.PIPE, check=True)
        graph = json.loads(read.stdout)
        used = {node["id"] for node in graph["resolve"]["nodes"]}
        packages.update({package["id"]: package for package in graph["packages"] if package["id"] in used})
    found = problems(deny, list(packages.values())) + versions(deny)
    for problem in found:
        print(f"deny: {problem}", file=sys.stderr)
    if found:
        sys.exit(1)
    print(f"deny: {len(packages)} packages keep the rules of deny.toml")


if __name__ == "__main__":
    main()
