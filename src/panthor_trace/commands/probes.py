# SPDX-License-Identifier: MIT
"""``panthor-trace probes --source``: exactly the C that would be loaded on this kernel."""

from __future__ import annotations

import click

from ..speech import say
from . import examples


@click.command(epilog=examples("panthor-trace probes", "panthor-trace probes --source"))
@click.option("--source", "show_source", is_flag=True, help="Print the C source instead of the list.")
def probes(show_source: bool) -> None:
    """List what would be probed on this kernel."""
    from ..capture.btf import Btf, BtfError, file_offsets
    from ..capture.source import program_source
    from ..uapi.vulkan import FUNCTIONS

    try:
        offsets = file_offsets(Btf.of_kernel())
    except BtfError as error:
        offsets = None
        say(f"no ioctl layer: {error}")
    if show_source:
        click.echo(program_source(offsets), nl=False)
        return
    for function in FUNCTIONS:
        click.echo(f"uprobe:libvulkan.so.1:{function.name}")
    click.echo("uprobe:libstdc++.so.6:__cxa_throw")
