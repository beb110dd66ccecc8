# SPDX-License-Identifier: MIT
"""Who invoked the tracer through sudo, and becoming that user."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import TraceError

#: Beyond it is only -1, "no change" (setresuid(2)).
_LAST_ID = (1 << 32) - 2


@dataclass(frozen=True)
class Identity:
    """A user as a process has it: ids and supplementary groups (render and video open the GPU)."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str | None
    home: str | None

    @classmethod
    def of_user(cls, name: str) -> Identity:
        """The user ``name`` (or numeric id) of the password database."""
        try:
            entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
        except (KeyError, OverflowError):
            raise TraceError(f"no such user: {name}") from None
        groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
        return cls(entry.pw_uid, entry.pw_gid, tuple(groups), entry.pw_name, entry.pw_dir)

    @classmethod
    def invoking(cls, environment: Mapping[str, str]) -> Identity | None:
        """The user who ran sudo; None where nobody did, or root itself."""
        words = [environment.get("SUDO_UID"), environment.get("SUDO_GID")]
        if words == [None, None]:
            return None
        numbers = [int(word) for word in words if word and word.isascii() and word.isdecimal()]
        if len(numbers) != len(words) or max(numbers) > _LAST_ID:
            raise TraceError(
                f"SUDO_UID={words[0] or ''} and SUDO_GID={words[1] or ''} are no user: "
                "unset both, or run it by sudo"
            )
        uid, gid = numbers
        if uid == 0 or os.geteuid() != 0:
            return None
        try:
            known = cls.of_user(str(uid))
        except TraceError:  # a user the password database does not know, as in containers
            return cls(uid, gid, (gid,), None, None)
        return cls(uid, gid, known.groups, known.name, known.home)

    def environment(self) -> dict[str, str]:
        """Variables that differ between root's environment and this user's."""
        variables = {}
        if self.home:
            variables["HOME"] = self.home
        if self.name:
            variables["USER"] = variables["LOGNAME"] = self.name
        runtime = Path(f"/run/user/{self.uid}")
        if runtime.is_dir():
            variables["XDG_RUNTIME_DIR"] = str(runtime)
        return variables

    def become(self) -> None:
        """Become this user for good. Order matters: the uid goes last, for it takes the right to the rest."""
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)


@contextlib.contextmanager
def acting_as(identity: Identity | None) -> Iterator[None]:
    """Take on the user's rights, and only those, for file accesses inside the block."""
    if identity is None:
        yield
        return
    groups, gid, uid = os.getgroups(), os.getegid(), os.geteuid()
    os.setgroups(identity.groups)
    os.setegid(identity.gid)
    os.seteuid(identity.uid)
    try:
        yield
    finally:
        os.seteuid(uid)
        os.setegid(gid)
        os.setgroups(groups)
