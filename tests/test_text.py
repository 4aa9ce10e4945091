"""Hostile text in every place where text from outside is shown: it appears, and does nothing else."""

import io
import json
import re
import xml.etree.ElementTree as ElementTree
from contextlib import redirect_stdout
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import operformer
from operformer.commands.console import show
from operformer.data.importing import store
from operformer.data.manifest import MANIFEST, decode, encode
from operformer.domain import Grid, Samples
from operformer.errors import DataError, OperformerError
from operformer.runs.report.encoding import thumbnails
from operformer.runs.report.explorer import explorer_data
from operformer.runs.report.figures import to_svg, training_figure
from operformer.runs.report.page import render
from operformer.runs.report.tables import Table, error_table, settings_table
from operformer.sharing.card import card
from operformer.terminal import Terminal
from operformer.text import drawn, markdown, plain, shown
from operformer.training.status import TrainingDisplay

HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07", "\x00", "\r", "\n", "a\n---\nb", "\t", "\x08" * 9, "\x9b31m", "\x7f", "\u202egnp.exe",
    "\u2066", "\u200f", "\u2028", "\u2029", "\u200b", "\ufeff", "\ud800", "\udcff", "\U000e0041", "\ue000",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "--></script><script>", "{{ 7 * 7 }}", "$\\frac{$",
    "$x$", "a$b", "[bold]x[/bold]", ":skull:", "[a](javascript:x)", "`|`|**", "\\", "&lt;b&gt;", "%s {0} %n",
]  # fmt: skip
TAGS = re.compile(r"(?<!\\)<(?=script>|img|/script><script)")


def told(action):
    try:
        action()
    except OperformerError as error:
        return str(error)
    raise AssertionError("it was not refused")


def printed(action):
    with redirect_stdout(io.StringIO()) as out:
        action()
    return out.getvalue()


def inner(svg):
    """The texts of a picture, which are paths; what was drawn stands beside them as comments."""
    ElementTree.fromstring(svg)
    return svg


def arrays(text, folder):
    text = text.encode("utf-8", "replace").decode().replace("/", "").replace("\x00", "")
    np.savez(folder / "a.npz", **{text or "a": np.ones((3, 4)), "b": np.ones((3, 4))})
    return told(lambda: operformer.read(folder / "a.npz"))


def tensors(text, folder):
    operator = operformer.TNO(1, 1, 1, hidden_channels=4, n_layers=1, n_heads=2)
    operator.save_pretrained(folder / "operator")
    path = folder / "operator" / "model.safetensors"
    found = load_file(path)
    found["\u0001" + text.encode("utf-8", "replace").decode()] = torch.ones(1)
    save_file(found, path)
    return told(lambda: operformer.load(folder / "operator"))


def stored(change, folder):
    """A set whose manifest somebody has changed, with the right checksum."""
    u = torch.rand(3, 1, 5)
    store(Samples(u, u, Grid.uniform(5)), folder / "set", "title", {"file": "a"})
    values = decode(folder / "set" / MANIFEST)
    change(values)
    (folder / "set" / MANIFEST).write_bytes(encode(values))
    return folder / "set"


def set_with(change):
    def place(text, folder, call, _):
        _, out, err = call("inspect", stored(lambda values: change(values, text), folder))
        return out + err

    return place


def status(text, folder, call, _):
    values = {"title": text, "state": "finished", "epoch": 1, "epochs": 1, "batch": 0, "batches": 0, "loss": 1.0}
    values |= {"best_error": 1.0, "samples_per_second": 1.0, "seconds_left": 0.0}
    (folder / "status.json").write_text(json.dumps(values))
    code, out, err = call("status", folder)
    assert (code, err) == (0, "")
    return out


def folder_name(text, folder, call, _):
    return "".join(call("status", folder / text.replace("\x00", "").replace("/", ""))[1:])


def named(run, text):
    return replace(run, experiment=replace(run.experiment, name=text), made={"device": text})


def page(text, _folder, _call, make_run):
    run = named(make_run(), text)
    values = {"title": text, "summary": [text], "errors": error_table([run]), "settings": settings_table([run])}
    return render("page.html", values | {"pictures": []}, [])


def explorer(text, _folder, _call, make_exhibit):
    exhibit = make_exhibit(text, text, 1.0, {"1x": (5,)}, inputs=(text,), outputs=(text, "q"))
    return json.dumps(explorer_data([exhibit])["problems"], ensure_ascii=False)


def channels(text, _folder, _call, _):
    u = torch.rand(1, 1, 5)
    return inner(to_svg(thumbnails(Samples(u, u, Grid.uniform(5)), [text, "z"])))


PLACES = {
    "errors": lambda text, *_: str(DataError(f"in {text}")),
    "terminal": lambda text, *_: printed(lambda: Terminal().print(text, soft_wrap=True)),
    "tables": lambda text, *_: printed(lambda: show(Table(text, (text,), ((text,),)))),
    "titles of trainings": lambda text, *_: printed(lambda: TrainingDisplay(text, 2, 3).epoch(1, 0.1, 0.1)),
    "quotations": lambda text, *_: shown(text),
    "names of arrays": lambda text, folder, *_: arrays(text, folder),
    "names of tensors": lambda text, folder, *_: tensors(text, folder),
    "checks of sets": set_with(lambda values, text: values["shards"][0]["checks"].update({text: 1.0})),
    "origins of sets": set_with(lambda values, text: values["header"]["origin"].update(file=text)),
    "channels of sets": set_with(lambda values, text: values["header"]["fields"].update(inputs=[text])),
    "status": status,
    "names of folders": folder_name,
    "cards": lambda text, _folder, _call, make_run: card(named(make_run(), text), text),
    "pages": page,
    "explorers": explorer,
    "figures": lambda text, _folder, _call, make_run: inner(to_svg(training_figure([named(make_run(), text)] * 2))),
    "channels in figures": channels,
    "LaTeX": lambda text, *_: Table(text, (text,), ((text,),)).latex("x"),
}  # fmt: skip


def attempt(place, text, folder, call, make_run, make_exhibit):
    folder.mkdir()
    found = PLACES[place](text, folder, call, make_exhibit if place == "explorers" else make_run)
    assert found
    assert all(letter.isprintable() or letter == "\n" for letter in found), (place, text)
    found.encode("utf-8")
    if place in ("cards", "pages"):
        assert not TAGS.search(found), (place, text)


@pytest.mark.parametrize("place", PLACES)
def test_hostile_text_only_appears(place, tmp_path, call, make_run, make_exhibit):
    attempt(place, "".join(HOSTILE), tmp_path / "0", call, make_run, make_exhibit)


@pytest.mark.faults
def test_every_hostile_text_in_every_place(tmp_path, call, make_run, make_exhibit, count):
    number = 0
    for place in PLACES:
        for text in HOSTILE:
            attempt(place, text, tmp_path / str(number), call, make_run, make_exhibit)
            number += 1
    count("texts planted in names and titles, each shown harmlessly", number)
    assert number >= 500


def test_what_is_printable_stays_and_the_rest_is_an_escape():
    assert plain("Größe × 2 · שלום 数") == "Größe × 2 · שלום 数"
    assert plain("a\x1b[2J\u202e\ud800\n") == "a\\x1b[2J\\u202e\\ud800\\n"
    assert markdown("a|b <i>*x*</i>") == r"a\|b \<i\>\*x\*\</i\>"
    assert markdown("[a](b) [a][b] < 1 %, [104]") == r"[a\](b) [a\][b] < 1 %, [104]"
    assert drawn("$x$") == r"\$x\$"
