# SPDX-License-Identifier: MIT
"""``panthor-trace probes``: what would be probed on this machine, or the C that would be loaded."""

from __future__ import annotations

import json
import os

import click

from ..speech import say
from . import examples


@click.command(
    epilog=examples(
        "sudo panthor-trace probes", "panthor-trace probes --json", "panthor-trace probes --source"
    )
)
@click.option("--source", "show_source", is_flag=True, help="Print the C source instead of the list.")
@click.option("--json", "as_json", is_flag=True, help="The list as JSON, with what this machine has not.")
def probes(show_source: bool, as_json: bool) -> None:
    """List what would be probed on this machine, one probe a line; nothing is probed.

    Without root, tracepoints cannot be looked at: they are listed all the same.
    """
    if show_source:
        if as_json:
            raise click.UsageError("--json and --source are two answers to one question")
        _show_source()
        return
    from ..capture.probe_list import probe_list

    listed = list(probe_list(os.environ))
    if as_json:
        click.echo(json.dumps([probe.as_json() for probe in listed], indent=1))
        return
    for probe in listed:
        if probe.present is not False:
            click.echo(probe.probe)


def _show_source() -> None:
    from ..capture.btf import Btf, BtfError, file_offsets
    from ..capture.source import program_source

    try:
        offsets = file_offsets(Btf.of_kernel())
    except BtfError as error:
        offsets = None
        say(f"no ioctl layer: {error}")
    click.echo(program_source(offsets), nl=False)
