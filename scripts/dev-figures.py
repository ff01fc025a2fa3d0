#!/usr/bin/env python3
"""How long `gristmill dev` takes from a save until the new version serves, besides the build: PROGRAM is a gristmill, COMPONENT a component.

Each save writes the component with other bytes at its end; the project's build only copies it. Prints the fewest, the middle and the most
milliseconds of 15 saves.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SAVES = 15
HANDLER = 'name = "h"\nlanguage = "any"\nbuild = ["mkdir -p build && cp src/handler.bin build/h.wasm"]\ncomponent = "build/h.wasm"\n'
MANIFEST = '[http]\nlisten = "off"\n[store]\nurl = "sqlite::memory:"\n[topics.h]\nclock = true\nrandom = true\n'


def save(folder, component, number):
    content = b"\x06marker" + b"%010d" % number
    with open(f"{folder}/src/.new", "wb") as file:
        file.write(component + b"\x00" + bytes([len(content)]) + content)
    os.rename(f"{folder}/src/.new", f"{folder}/src/handler.bin")


def built(dev):
    for line in dev.stdout:
        document = json.loads(line)
        if document["kind"] == "build":
            return document
        sys.exit(line)
    sys.exit("dev has ended: see its messages above")


def main(program, path):
    with open(path, "rb") as file:
        component = file.read()
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/src")
        for name, text in (("handler.toml", HANDLER), ("gristmill.toml", MANIFEST)):
            with open(f"{folder}/{name}", "w") as file:
                file.write(text)
        save(folder, component, 0)
        dev = subprocess.Popen([os.path.abspath(program), "dev", "--json", "--no-run"], cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            built(dev)
            saves = []
            for number in range(1, SAVES + 1):
                # As a person does it: not while the one before is served.
                time.sleep(1)
                save(folder, component, number)
                saves.append(built(dev))
        finally:
            dev.terminate()
            dev.wait()
    for save_ in saves:
        save_["besides_build_ms"] = save_["since_save_ms"] - save_["build_ms"]
        save_["besides_build_and_check_ms"] = save_["besides_build_ms"] - save_["check_ms"]
    for name in ("since_save_ms", "build_ms", "check_ms", "swap_ms", "besides_build_ms", "besides_build_and_check_ms"):
        values = [save_[name] for save_ in saves]
        print(f"{name:28} {min(values):8.1f} {statistics.median(values):8.1f} {max(values):8.1f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
