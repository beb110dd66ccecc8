# SPDX-License-Identifier: MIT
"""What doctor makes of what it finds: remedies, answers, its table, the search for Vulkan drivers."""

from __future__ import annotations

import ast
import itertools
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from panthor_trace import doctor
from panthor_trace.capture.icds import icds
from panthor_trace.doctor.check import Check, Finding, Result, State
from panthor_trace.doctor.checks import CHECKS, EXIT_MISSING, examine, exit_status
from panthor_trace.doctor.distribution import DISTRIBUTIONS, distribution, os_release
from panthor_trace.doctor.machine import Machine
from panthor_trace.doctor.remedies import REMEDIES
from panthor_trace.errors import EXIT_NO_VERDICT
from panthor_trace.report import doctor as report

WHERE: Mapping[str, str | None] = {
    "distribution": "debian",
    "distribution_name": "Debian GNU/Linux 13 (trixie)",
    "kernel": "6.12",
    "architecture": "aarch64",
}


def result(state: State, name: str = "a", **finding: object) -> Result:
    return Result(
        Check(name, "kernel", "a title", lambda _machine: Finding(state, ""), "what it is for"),
        Finding(state, "found", **finding),  # type: ignore[arg-type]
    )


def words_of_the_checks() -> set[str]:
    """All string constants of the package's sources, but for the table of remedies itself."""
    directory = Path(doctor.__file__).parent
    return {
        node.value
        for path in directory.glob("*.py")
        if path.name != "remedies.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def remedies_given() -> set[str]:
    """The third argument of every Finding(...) in the sources, where it is written there."""
    directory = Path(doctor.__file__).parent
    return {
        argument.value
        for path in directory.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"
        for argument in node.args[2:3]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def test_every_remedy_is_there_for_every_distribution_and_used() -> None:
    assert {tuple(given) for given in REMEDIES.values()} == {DISTRIBUTIONS}
    assert len(remedies_given()) > 15
    assert remedies_given() <= set(REMEDIES)
    assert set(REMEDIES) <= words_of_the_checks()


def test_every_check_says_what_it_is_for() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS) > 20
    assert all(check.without and check.title for check in CHECKS)
    groups = [check.group for check in CHECKS]
    assert [group for group, next_ in itertools.pairwise(groups) if group != next_] == list(
        dict.fromkeys(groups)
    )[:-1]


def test_a_check_that_breaks_is_unknown_and_the_others_are_made() -> None:
    def broken(_machine: Machine) -> Finding:
        raise ValueError("of a kernel not met yet")

    fine = Check("fine", "kernel", "fine", lambda _machine: Finding(State.OK, "yes"), "-")
    results = examine(Machine(), [Check("broken", "kernel", "broken", broken, "-"), fine])
    assert [r.finding.state for r in results] == [State.UNKNOWN, State.OK]
    assert "not met yet" in results[0].finding.found


@pytest.mark.parametrize(
    ("states", "status", "answer"),
    [
        ((State.OK, State.OK), 0, "ready: 2 checks, all ok"),
        ((State.OK, State.DEGRADED), 0, "ready: 1 degraded"),
        ((State.OK, State.UNKNOWN), EXIT_NO_VERDICT, "not known whether ready: 1 unknown"),
        (
            (State.UNKNOWN, State.MISSING, State.DEGRADED),
            EXIT_MISSING,
            "not ready: 1 missing, 1 degraded, 1 unknown",
        ),
    ],
)
def test_answer_and_exit_status(states: tuple[State, ...], status: int, answer: str) -> None:
    results = [result(state) for state in states]
    assert exit_status(results) == status
    assert report.answer(results) == answer


@pytest.mark.parametrize(
    ("text", "armbian", "expected"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\n', False, "debian"),
        ('ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n', False, "ubuntu"),
        ('ID=debian\nPRETTY_NAME="Armbian 25.8 trixie"\n', True, "armbian"),
        ("ID=fedora\n", False, "fedora"),
        ("ID=archarm\nID_LIKE=arch\n", False, "arch"),
        ('ID="linuxmint"\nID_LIKE="ubuntu debian"\n', False, "ubuntu"),
        ("ID=nixos\n", False, None),
        ("", False, None),
    ],
)
def test_distribution(tmp_path: Path, text: str, armbian: bool, expected: str | None) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(text)
    if armbian:
        (tmp_path / "etc/armbian-release").write_text("BOARD=rock-5b\n")
    assert distribution(os_release(tmp_path), tmp_path) == expected


@pytest.mark.parametrize("width", [50, 80])
@pytest.mark.parametrize("name", [*DISTRIBUTIONS, None])
def test_table_fits(
    width: int, name: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    results = [result(State.MISSING, remedy=remedy, facts={"group": "render"}) for remedy in REMEDIES]
    report.show(results, Machine(), {**WHERE, "distribution": name})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > len(results) * 2
    for line in lines:  # a long word is left whole, be it longer than the line
        assert len(line) <= width or len(line.split()[-1]) > 20, line
    text = " ".join(" ".join(lines).split())
    assert ("sudo apt install python3-bpfcc" in text) == (name in ("debian", "ubuntu", "armbian", None))
    assert ("sudo pacman -S python-bcc" in text) == (name in ("arch", None))
    assert 'usermod -aG render "$USER"' in text


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    written: list[object] = []
    monkeypatch.setattr(click, "echo", lambda text, color=None: written.append(color))
    monkeypatch.setattr(click, "secho", lambda text, color=None, **_style: written.append(color))
    monkeypatch.setenv("NO_COLOR", "1")
    report.show([result(State.OK)], Machine(), WHERE)
    assert written.count(False) >= 2
    written.clear()
    monkeypatch.setenv("NO_COLOR", "")
    report.show([result(State.OK)], Machine(), WHERE)
    assert set(written) == {None}  # click then looks whether it is a terminal


def test_json_holds_every_distributions_remedy() -> None:
    rows = report.as_json([result(State.MISSING, remedy="bcc"), result(State.OK)], Machine(), WHERE)
    assert rows["ready"] is False
    assert rows["checks"][0]["remedies"] == dict(REMEDIES["bcc"])
    assert rows["checks"][0]["without"] == "what it is for"
    assert (rows["checks"][1]["remedies"], rows["checks"][1]["without"]) == (None, None)
    json.dumps(rows)


#: A file that is a library of this machine: what is looked for in it is put behind its end.
LIBRARY = Path(sys.executable).resolve()


def manifest(path: Path, library: str, **more: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"file_format_version": "1.0.1", "ICD": {"library_path": library, **more}}
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def drivers(tmp_path: Path) -> Path:
    """Two drivers: panvk by an absolute path, another one by a path relative to its manifest."""
    for name, content in (("panvk.so", b"\0panvk\0Mesa 26.1.6-1\0"), ("other.so", b"")):
        shutil.copyfile(LIBRARY, tmp_path / name)
        with (tmp_path / name).open("ab") as file:
            file.write(content)
    manifest(tmp_path / "data/vulkan/icd.d/panfrost_icd.json", str(tmp_path / "panvk.so"))
    manifest(tmp_path / "config/vulkan/icd.d/other_icd.json", "../../../other.so")
    return tmp_path


def searched(root: Path, **more: str) -> list[tuple[str, bool]]:
    places = {
        "XDG_DATA_DIRS": root / "data",
        "XDG_CONFIG_DIRS": root / "config",
        "XDG_DATA_HOME": root / "none",
    }
    environment = {name: str(path) for name, path in places.items()} | {"HOME": str(root)} | more
    return [
        (icd.manifest.name, icd.panvk)
        for icd in icds(environment)
        if icd.manifest.is_relative_to(root)  # this machine has a /etc of its own
    ]


def test_drivers_are_found_in_the_loaders_order(drivers: Path) -> None:
    assert searched(drivers) == [("other_icd.json", False), ("panfrost_icd.json", True)]
    (found,) = [icd for icd in icds({"XDG_DATA_DIRS": str(drivers / "data")}) if icd.panvk]
    assert (found.library, found.version) == (drivers / "panvk.so", "26.1.6-1")


@pytest.mark.parametrize("variable", ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"])
def test_named_drivers_are_instead_of_all_others(drivers: Path, variable: str) -> None:
    other = drivers / "config/vulkan/icd.d/other_icd.json"
    assert searched(drivers, **{variable: str(other)}) == [("other_icd.json", False)]
    both = f"{other.parent}:{drivers}/data/vulkan/icd.d/panfrost_icd.json"  # a directory, a file
    assert [name for name, _ in searched(drivers, **{variable: both})] == [
        "other_icd.json",
        "panfrost_icd.json",
    ]
    assert searched(drivers, **{variable: str(drivers / "nothing.json")}) == []


def test_drivers_are_added_and_filtered(drivers: Path) -> None:
    added = manifest(drivers / "more/added_icd.json", str(drivers / "other.so"))
    names = [name for name, _ in searched(drivers, VK_ADD_DRIVER_FILES=str(added))]
    assert names == ["added_icd.json", "other_icd.json", "panfrost_icd.json"]
    assert searched(drivers, VK_LOADER_DRIVERS_SELECT="*PANFROST*") == [("panfrost_icd.json", True)]
    assert searched(drivers, VK_LOADER_DRIVERS_DISABLE="panfrost*,nothing") == [("other_icd.json", False)]


def test_what_cannot_be_loaded_is_not_taken_for_a_driver(drivers: Path) -> None:
    directory = drivers / "data/vulkan/icd.d"
    manifest(directory / "gone.json", str(drivers / "gone.so"))
    manifest(directory / "arch32.json", str(drivers / "panvk.so"), library_arch="32")
    (drivers / "text.so").write_text("\0panvk\0")
    manifest(directory / "text.json", str(drivers / "text.so"))
    (directory / "broken.json").write_text("{")
    found = {icd.manifest.name: icd for icd in icds({"XDG_DATA_DIRS": str(drivers / "data")})}
    assert found["panfrost_icd.json"].panvk
    assert (found["gone.json"].library, found["text.json"].library) == (None, None)
    assert not found["text.json"].panvk
    assert not {"arch32.json", "broken.json"} & set(found)
