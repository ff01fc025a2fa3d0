#!/usr/bin/env python3
"""What is in the binary: its crates, as CycloneDX for people and tools, and as cargo-auditable writes them into binaries.

    packaging/sbom.py TARGET COMMIT FOLDER    writes gristmill.cdx.json, licences.txt, packages.zlib and about.json there
"""

import json
import pathlib
import re
import subprocess
import sys
import zlib


def cargo(*arguments: str) -> str:
    return subprocess.run(["cargo", *arguments, "--locked"], stdout=subprocess.PIPE, check=True, text=True).stdout


def licences(packages: list[dict]) -> str:
    """The licences of the crates as their authors wrote them, each text once."""
    texts: dict[str, list[str]] = {}
    for package in packages:
        folder = pathlib.Path(package["manifest_path"]).parent
        files = [path for path in sorted(folder.iterdir()) if path.is_file() and re.match("(?i)(licen[cs]e|copying|notice)", path.name)]
        for text in {path.read_text(errors="replace").strip() for path in files} or {f"Its licence: {package['license']}"}:
            texts.setdefault(text, []).append(f"{package['name']} {package['version']}")
    parts = sorted((", ".join(sorted(names)), text) for text, names in texts.items())
    return "".join(f"{'=' * 80}\n{names}\n{'=' * 80}\n\n{text}\n\n" for names, text in parts)


def main() -> None:
    target, commit, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    # Only `cargo tree` says what one package takes, with which features; only `cargo metadata` says more about each of them.
    tree = {
        kind: {
            tuple(line.split()[:2])
            for line in cargo("tree", "-p", "gristmill", "--target", target, "-e", edges, "--prefix", "none").splitlines()
            if line
        }
        for kind, edges in [("run", "normal"), ("all", "normal,build")]
    }
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))
    known = {(package["name"], "v" + package["version"]): package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    packages = sorted((known[key] for key in tree["all"]), key=lambda p: (p["name"], p["version"]))
    index = {package["id"]: number for number, package in enumerate(packages)}
    version = known[next(key for key in tree["run"] if key[0] == "gristmill")]["version"]

    def needs(package: dict) -> list[int]:
        return sorted({index[d["pkg"]] for d in nodes[package["id"]]["deps"] if d["pkg"] in index} - {index[package["id"]]})

    audit = []
    for package in packages:
        entry = {"name": package["name"], "version": package["version"]}
        entry["source"] = "crates.io" if package["source"] else "local"
        if (package["name"], "v" + package["version"]) not in tree["run"]:
            entry["kind"] = "build"
        if dependencies := needs(package):
            entry["dependencies"] = dependencies
        if package["name"] == "gristmill":
            entry["root"] = True
        audit.append(entry)

    def reference(package: dict) -> str:
        return f"pkg:cargo/{package['name']}@{package['version']}"

    root = next(package for package in packages if package["name"] == "gristmill")
    described = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "gristmill", "version": version, "bom-ref": reference(root)},
            "properties": [{"name": "commit", "value": commit}, {"name": "target", "value": target}],
        },
        "components": [
            {
                "type": "library",
                "name": package["name"],
                "version": package["version"],
                "purl": reference(package),
                "bom-ref": reference(package),
                "licenses": [{"expression": (package["license"] or "NOASSERTION").replace("/", " OR ")}],
                "scope": "excluded" if entry.get("kind") == "build" else "required",
            }
            for package, entry in zip(packages, audit)
            if package is not root
        ],
        "dependencies": [
            {"ref": reference(package), "dependsOn": [reference(packages[number]) for number in needs(package)]} for package in packages
        ],
    }
    rustc = subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    about = {"version": version, "commit": commit, "target": target, "rustc": rustc}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gristmill.cdx.json").write_text(json.dumps(described, indent=1) + "\n")
    compiled = [package for package, entry in zip(packages, audit) if package["source"] and entry.get("kind") != "build"]
    (folder / "licences.txt").write_text(licences(compiled))
    text = json.dumps({"packages": audit}, separators=(",", ":")).encode()
    (folder / "packages.zlib").write_bytes(zlib.compress(text, 9))
    (folder / "about.json").write_text(json.dumps(about))


if __name__ == "__main__":
    main()
