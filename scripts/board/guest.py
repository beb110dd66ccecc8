# SPDX-License-Identifier: MIT
"""One boot of the board: run a command in it, pass its output through, return its status."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from . import cache
from .devicetree import MACHINE, devicetree
from .errors import LabError

#: Boots faster than "max", and is what RK3588's big cores are.
CPU = "cortex-a76"

#: With one processor, time in the guest counts instructions (8 ns each) and skips idling, so no driver
#: time-out depends on how busy the host is: stress runs pass on a loaded host (docs/lab.md). Several
#: processors exclude -icount; use them where speed matters more than determinism.
ACCELERATOR_DETERMINISTIC = ("-accel", "tcg", "-icount", "shift=3,sleep=off")
ACCELERATOR_PARALLEL = ("-accel", "tcg,thread=multi")

#: Where the repository is seen in the guest; the panthor-trace command there runs from it.
REPOSITORY = Path(__file__).resolve().parents[2]

#: Exit status when the time limit ended the guest: that of timeout(1).
TIMED_OUT = 124


@dataclass(frozen=True)
class Images:
    """What a guest boots from."""

    kernel: Path
    initrd: Path
    root: Path
    workload: Path


@dataclass(frozen=True)
class Board:
    """The hardware of one guest, and what it shares with the host."""

    images: Images
    gpu_arguments: Sequence[str]
    memory_mib: int = 1024
    cpus: int = 1
    share: Path | None = None
    user: bool = False
    timeout: float = 600.0
    #: Let instructions be the clock (see ACCELERATOR_DETERMINISTIC); computing takes twice as long with it.
    deterministic: bool = True


def run(
    board: Board, command: Sequence[str], *, stdin: IO[bytes] | None, stdout: IO[bytes], stderr: IO[bytes]
) -> int:
    """Boot, run ``command`` and return its exit status; its output goes to ``stdout`` and ``stderr`` as is.

    Raises :class:`LabError` where the guest dies or outlives ``board.timeout``, naming the console log kept.
    """
    with _Session(board, "run") as session:
        session.job("command", "exec " + shlex.join(command) + "\n")
        session.job("stdin", "1" if stdin else "0")
        ports = {name: socket.socketpair() for name in ("stdin", "stdout", "stderr")}
        qemu = session.start(ports={name: theirs for name, (_, theirs) in ports.items()})
        for _, theirs in ports.values():
            theirs.close()
        refused: list[OSError] = []  # by whoever was to take the output

        def pump_out(port: socket.socket, target: IO[bytes]) -> None:
            try:
                while chunk := port.recv(65536):
                    target.write(chunk)
                    target.flush()
            except OSError as error:
                refused.append(error)
                qemu.kill()

        pumps = [
            threading.Thread(target=pump_out, args=(ports["stdout"][0], stdout), daemon=True),
            threading.Thread(target=pump_out, args=(ports["stderr"][0], stderr), daemon=True),
        ]
        if stdin:
            threading.Thread(target=_pump_in, args=(stdin, ports["stdin"][0]), daemon=True).start()
        for pump in pumps:
            pump.start()
        session.wait(qemu, ended_by_us=lambda: bool(refused))
        for pump in pumps:
            pump.join()
        for ours, _ in ports.values():
            ours.close()
        if not refused:
            return session.status()
        if refused[0].errno == errno.EPIPE:  # a local command would have died of SIGPIPE
            return 128 + signal.SIGPIPE
        raise LabError(f"cannot pass the command's output on: {refused[0].strerror}; the guest was ended")


def shell(board: Board) -> int:
    """An interactive shell in the guest, on this terminal."""
    with _Session(board, "shell") as session:
        columns, lines = shutil.get_terminal_size()
        session.job("size", f"rows {lines} cols {columns}\n")
        settings = termios.tcgetattr(sys.stdin)
        try:
            session.wait(session.start(console=True))
        finally:  # QEMU makes the terminal raw, and restores it only where it ends by itself
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)
        return session.status()


def _pump_in(source: IO[bytes], port: socket.socket) -> None:
    """Feed the port; closing our side is what the guest reads as end of file."""
    with contextlib.suppress(OSError):  # the guest may end first
        while chunk := os.read(source.fileno(), 65536):
            port.sendall(chunk)
        port.shutdown(socket.SHUT_WR)


def _escaped(path: Path) -> str:
    """A path as the value of one of QEMU's comma-separated options."""
    return str(path).replace(",", ",,")


#: Guests that run, for whoever has to end them from another thread.
_running: set[subprocess.Popen[bytes]] = set()


def end_all() -> None:
    """End every guest of this process."""
    for qemu in list(_running):
        qemu.kill()


class _Session:
    """A boot's scratch directory and QEMU process; gone at exit, but for the console log of a failure."""

    def __init__(self, board: Board, mode: str) -> None:
        self._board = board
        self._scratch = Path(tempfile.mkdtemp(prefix="panthor-lab-"))
        self._console = self._scratch / "console.log"
        job = self._scratch / "job"
        job.mkdir()
        job.chmod(0o755)
        self.job("mode", mode)
        self.job("user", "user" if board.user else "root")

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)

    def job(self, name: str, content: str) -> None:
        """Leave ``content`` for the agent (see boot/agent)."""
        path = self._scratch / "job" / name
        path.write_bytes(os.fsencode(content))  # words of a command are bytes, not text
        path.chmod(0o644)  # for the guest's ordinary user, whatever the umask

    def start(
        self, *, ports: dict[str, socket.socket] | None = None, console: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start QEMU; ``ports`` become the guest's virtio ports ``lab.<name>``."""
        ports = ports or {}
        arguments = [*self._machine(), *self._shares()]
        for name, theirs in ports.items():
            arguments += ["-chardev", f"socket,id={name},fd={theirs.fileno()}"]
            arguments += ["-device", f"virtserialport,chardev={name},name=lab.{name}"]
        if console:
            arguments += ["-chardev", "stdio,id=console,signal=off", "-device", "virtconsole,chardev=console"]
        with (self._scratch / "qemu.log").open("wb") as log:
            qemu = subprocess.Popen(
                arguments,
                stdin=None if console else subprocess.DEVNULL,
                stdout=None if console else log,
                stderr=log,
                pass_fds=[theirs.fileno() for theirs in ports.values()],
                # Ctrl-C is ours to handle: QEMU would power off without a word.
                start_new_session=not console,
            )
        _running.add(qemu)
        return qemu

    def _machine(self) -> list[str]:
        board, images = self._board, self._board.images
        tree = devicetree(board.cpus, CPU, lambda _line: None)
        counting = board.deterministic and board.cpus == 1
        accelerator = ACCELERATOR_DETERMINISTIC if counting else ACCELERATOR_PARALLEL
        gpu = ",".join(board.gpu_arguments)
        drives = (("root", images.root), ("workload", images.workload))
        return [
            # However we die, the guest goes with us.
            *("setpriv", "--pdeathsig", "KILL", "--"),
            *("qemu-system-aarch64", "-M", MACHINE, "-cpu", CPU, *accelerator),
            *("-smp", str(board.cpus), "-m", f"{board.memory_mib}M"),
            *("-display", "none", "-nic", "none", "-monitor", "none", "-no-reboot"),
            *("-serial", f"file:{self._console}"),
            *("-kernel", str(images.kernel), "-initrd", str(images.initrd), "-dtb", str(tree)),
            *("-append", f"console=ttyAMA0 panic=-1 lab.gpu={gpu}"),
            *("-device", "virtio-serial-pci"),
            # snapshot=on: what a guest writes goes to a file of its own that vanishes with it.
            *(
                word
                for name, path in drives
                for word in (
                    *("-drive", f"if=none,id={name},file={_escaped(path)},format=raw,snapshot=on"),
                    *("-device", f"virtio-blk-pci,drive={name}"),
                )
            ),
        ]

    def _shares(self) -> list[str]:
        exports = {"job": self._scratch / "job", "src": REPOSITORY}
        if self._board.share:
            exports["share"] = self._board.share
        # security_model=none: files belong to the host's user, who may not give them away: chown can fail.
        return [
            word
            for tag, path in exports.items()
            for word in (
                "-virtfs",
                f"local,path={_escaped(path)},mount_tag={tag},security_model=none,id={tag}"
                + (",readonly=on" if tag == "src" else ""),
            )
        ]

    def wait(self, qemu: subprocess.Popen[bytes], *, ended_by_us: Callable[[], bool] = lambda: False) -> None:
        """Wait for the guest to power off; end it at the time limit, or when we are interrupted."""
        try:
            qemu.wait(self._board.timeout)
        except subprocess.TimeoutExpired:
            raise LabError(
                f"the guest did not finish within {self._board.timeout:g} s and was ended "
                f"(--timeout raises the limit); its console: {self._keep_console()}",
                exit_code=TIMED_OUT,
            ) from None
        finally:
            if qemu.poll() is None:
                qemu.kill()
                qemu.wait()
            _running.discard(qemu)
        if qemu.returncode != 0 and not ended_by_us():
            words = (self._scratch / "qemu.log").read_text(errors="replace").strip().splitlines()
            raise LabError(f"QEMU failed: {words[-1] if words else f'exit status {qemu.returncode}'}")

    def status(self) -> int:
        """The command's exit status as the agent left it."""
        try:
            return int((self._scratch / "job" / "status").read_text())
        except (OSError, ValueError):
            panic = "Kernel panic" in self._console.read_text(errors="replace")
            raise LabError(
                f"the guest {'kernel panicked' if panic else 'ended'} before the command did; its console: "
                f"{self._keep_console()}"
            ) from None

    def _keep_console(self) -> Path:
        kept = cache.cache_root() / "consoles"
        kept.mkdir(parents=True, exist_ok=True)
        target = kept / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        shutil.copyfile(self._console, target)
        return target
