# SPDX-License-Identifier: MIT
"""``panthor-trace doctor``: whether this machine has what the recording needs. Changes nothing."""

from __future__ import annotations

import json
import platform
import sys

import click

from . import examples


@click.command(
    epilog=examples(
        "panthor-trace doctor",
        "sudo panthor-trace doctor",
        "panthor-trace doctor --json",
    )
)
@click.option("--json", "as_json", is_flag=True, help="All that was found, with every distribution's remedy.")
def doctor(as_json: bool) -> None:
    """Check whether this machine has what panthor-trace needs, and say what to do where it has not.

    Changes nothing. Works without root; what only root can see is said to be unknown.

    \b
    Exit status:
        0  ready: all the main job needs is there
        1  something is missing
       13  nothing was found missing, but not everything could be looked at
    """
    from ..doctor.checks import examine, exit_status
    from ..doctor.distribution import distribution, os_release
    from ..doctor.machine import Machine
    from ..report import doctor as report

    machine = Machine()
    release = os_release()
    where = {
        "distribution": distribution(release),
        "distribution_name": release.get("PRETTY_NAME"),
        "kernel": machine.kernel,
        "architecture": platform.machine(),
    }
    results = examine(machine)
    if as_json:
        click.echo(json.dumps(report.as_json(results, machine, where), indent=1))
    else:
        report.show(results, machine, where)
    sys.exit(exit_status(results))
