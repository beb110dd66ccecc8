# SPDX-License-Identifier: MIT
"""What kind of values a column holds in every trace: what files with types (Parquet) need, and CSV does not.

In memory a column's dtype depends on what happened: a trace without failures has no errno to tell that it is
text. Files of a thousand traces are one table only if their columns have the same types in all of them.
Columns go by their names; a test holds this against the tables and docs/tables.md.
"""

from __future__ import annotations

import enum


class Kind(enum.Enum):
    """The values of a column."""

    #: Times, sizes, counts, ids, answers: 64 bits with a sign. Every column that is none of the others.
    INTEGER = "integer"
    #: Addresses, handles, masks, and sizes as a program asked for them: all 64 bits may be set.
    UNSIGNED = "unsigned"
    TEXT = "text"
    FLAG = "flag"


_BY_KIND = {
    Kind.TEXT: """
        action build_id cgroup detail devpath done_by errno error fault frames function hold kind label
        layer limit loss module name node operation origin origin_chain path pool pool_ground priority
        result_name soname submit_result subsystem symbol variables what why""",
    Kind.FLAG: """
        asynchronous cut done failed finished no_exec oom_in_cgroup read_only refused uncached""",
    Kind.UNSIGNED: """
        address address_space address_space_limit allocation_size bo_offset buffer_size buffer_usage
        command_buffer compute_core_mask descriptor_limit end fence fragment_core_mask heap_va
        kernel_va_size offset queue requested size sp start tiler_core_mask user_va_range va vm""",
}
_KINDS = {name: kind for kind, names in _BY_KIND.items() for name in names.split()}
#: Columns whose name means something else in another table.
_EXCEPTIONS = {
    ("submits", "result"): Kind.TEXT,
    ("dispatches", "end_result"): Kind.TEXT,
}
#: Of ``kernel``, what every trace has. Behind are the values of its driver functions, as these have them.
KERNEL_COLUMNS = frozenset(
    {"kernel_id", "function", "pid", "tid", "enter_ns", "exit_ns", "ret", "errno"}
    | {"ioctl_id", "sp", "stack_id"}
)


def kind_of(table: str, column: str) -> Kind:
    """What ``column`` of ``table`` holds."""
    if table == "kernel" and column not in KERNEL_COLUMNS:
        return Kind.UNSIGNED
    return _EXCEPTIONS.get((table, column)) or _KINDS.get(column, Kind.INTEGER)
