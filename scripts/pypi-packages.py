#!/usr/bin/env python3
"""Which packages of PyPI work in a Python handler: one component imports all of them and runs a line of each, and the results are compared with
those of CPython on this machine. Prints the table of docs/guides/handlers/python.md.

    scripts/pypi-packages.py [GRISTMILL]     the program, by default target/debug/gristmill; packages come from PyPI
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

#: Package and version, what is imported, and an expression that uses it.
PACKAGES = [
    ("attrs==26.1.0", "import attrs", "attrs.asdict(attrs.make_class('Point', ['x', 'y'])(1, 2))"),
    ("beautifulsoup4==4.15.0", "from bs4 import BeautifulSoup", "BeautifulSoup('<p>a<b>c</b></p>', 'html.parser').b.text"),
    ("cachetools==8.0.2", "from cachetools import LRUCache", "sorted((cache := LRUCache(2)).update(a=1, b=2, c=3) or cache)"),
    ("certifi==2026.10.19.post1", "import certifi", "certifi.contents().count('BEGIN CERTIFICATE') > 50"),
    ("charset-normalizer==3.5.3", "from charset_normalizer import from_bytes", "str(from_bytes('Žofie má kočku'.encode('utf-8')).best())"),
    ("click==8.5.1", "import click", "click.style('a', fg='red') + click.format_filename('b')"),
    ("idna==3.20", "import idna", "idna.encode('žofie.example').decode()"),
    ("jinja2==3.1.6", "from jinja2 import Template", "Template('{% for n in names %}<{{ n|e }}>{% endfor %}').render(names=['a', '&'])"),
    ("jsonschema==4.26.0", "import jsonschema", "jsonschema.validate({'a': 1}, {'required': ['a']})"),
    ("markdown==3.11.3", "import markdown", "markdown.markdown('# Title\\n\\nSome *text*.')"),
    ("marshmallow==4.4.0", "from marshmallow import Schema, fields", "Schema.from_dict({'a': fields.Int()})().load({'a': '5'})"),
    ("more-itertools==11.2.1", "import more_itertools", "list(more_itertools.chunked([1, 2, 3], 2))"),
    ("openpyxl==3.1.5", "import io, openpyxl", "len(openpyxl.Workbook().sheetnames)"),
    ("packaging==26.4", "from packaging.version import Version", "Version('1.10') > Version('1.9')"),
    ("phonenumbers==9.0.43", "import phonenumbers", "phonenumbers.format_number(phonenumbers.parse('020 8366 1177', 'GB'), 1)"),
    ("pydantic==2.14.4", "import pydantic", "pydantic.create_model('A', a=(int, 1))().a"),
    ("pygments==2.21.0", "from pygments import highlight, lexers, formatters", "highlight('x = 1', lexers.PythonLexer(), formatters.HtmlFormatter())"),
    ("pyjwt==2.15.1", "import jwt", "jwt.decode(jwt.encode({'sub': 'ada'}, 'k' * 32), 'k' * 32, ['HS256'])"),
    ("pyparsing==3.3.3", "import pyparsing as pp", "(pp.Word(pp.nums) + '+' + pp.Word(pp.nums)).parse_string('1+2').as_list()"),
    ("python-dateutil==4.0.0", "from dateutil import parser, relativedelta", "str(parser.parse('31 Jan 2026') + relativedelta.relativedelta(months=1))"),
    ("python-slugify==9.2.0", "from slugify import slugify", "slugify('Ünïcode Text & more')"),
    ("pytz==2026.6", "import pytz, datetime", "str(pytz.utc.localize(datetime.datetime(2026, 1, 1)))"),
    ("pyyaml==6.0.4", "import yaml", "yaml.safe_dump(yaml.safe_load('a: [1, two]\\nb:\\n  - c: 1\\n'))"),
    ("requests==2.34.2", "import requests", "requests.Request('GET', 'https://example.org/a', params={'b': 'ž'}).prepare().url"),
    ("rich==15.0.0", "import io\nfrom rich.console import Console", "(c := Console(file=io.StringIO(), width=20)).print('[b]a[/b]') or c.file.getvalue()"),
    ("simplejson==4.3.0", "import decimal, simplejson", "simplejson.dumps({'a': decimal.Decimal('1.10')})"),
    ("six==1.17.0", "import six", "six.ensure_str(b'a')"),
    ("sortedcontainers==2.4.0", "from sortedcontainers import SortedDict", "list(SortedDict(b=1, a=2))"),
    ("sqlparse==0.6.1", "import sqlparse", "sqlparse.format('select a from b', keyword_case='upper')"),
    ("stripe==16.1.0", "import stripe", "stripe.Charge.construct_from({'id': 'ch_1'}, 'key').id"),
    ("tabulate==0.10.0", "from tabulate import tabulate", "tabulate([[1, 2]], ['a', 'b'])"),
    ("tomlkit==0.15.2", "import tomlkit", "tomlkit.dumps(tomlkit.parse('a = 1 # b\\n'))"),
    ("urllib3==2.8.0", "import urllib3", "urllib3.util.parse_url('https://example.org:80/a').port"),
    ("xmltodict==1.0.4", "import xmltodict", "xmltodict.parse('<a><b>1</b><b>2</b></a>')"),
]

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "out/pypi-packages"
GRANTS = '[handlers]\ncompile-timeout = "30m"\n[topics.packages]\nclock = true\nrandom = true\nmemory = "512MiB"\n[topics.packages.http]\nallow = ["*"]\n'

HANDLER = """
import importlib
from gristmill_guest import Json, handler

uses = {}
for at in range(COUNT):
    try:
        uses[at] = importlib.import_module(f"uses.u{at}").use
    except BaseException as error:
        uses[at] = f"{type(error).__name__}: {error}"


def attempt(use):
    if isinstance(use, str):
        return {"error": use}
    try:
        return {"value": use()}
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"}


@handler
def run(job):
    return Json([attempt(use) for use in uses.values()])
"""


def run(*command: str, cwd: Path = PROJECT) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return done.stdout


def main() -> None:
    gristmill = str(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/gristmill").resolve())
    shutil.rmtree(PROJECT, ignore_errors=True)
    PROJECT.parent.mkdir(exist_ok=True)
    run(gristmill, "new", "packages", "--lang", "python", "--path", str(PROJECT), cwd=ROOT)
    (PROJECT / "gristmill.toml").write_text(GRANTS)
    with (PROJECT / "requirements.txt").open("a") as requirements:
        requirements.writelines(f"{package}\n" for package, *_ in PACKAGES)
    (PROJECT / "uses").mkdir()
    for at, (_, imported, expression) in enumerate(PACKAGES):
        (PROJECT / f"uses/u{at}.py").write_text(f"{imported}\n\n\ndef use():\n    return {expression}\n")
    (PROJECT / "handler.py").write_text(HANDLER.replace("COUNT", str(len(PACKAGES))))
    run(gristmill, "build")
    here = "import json, handler\nprint(json.dumps([handler.attempt(use) for use in handler.uses.values()]))"
    expected = json.loads(run(".venv/bin/python", "-c", here))
    found = json.loads(run(gristmill, "invoke", "handlers/packages.wasm", "--topic", "packages", "--data", "{}"))
    installed = "import importlib.metadata as m, json\nprint(json.dumps({package.name.lower(): package.version for package in m.distributions()}))"
    versions = json.loads(run(".venv/bin/python", "-c", installed))
    print("| package | works |\n|---|---|")
    for (package, *_), there, here in zip(PACKAGES, found, expected):
        name = package.partition("==")[0]
        verdict = "yes" if there == here and "value" in there else f"no: {there.get('error', f'{there}, not {here}')}"
        print(f"| {name} {versions[name]} | {verdict} |")


if __name__ == "__main__":
    main()
