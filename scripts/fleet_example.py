#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A lab's traces as one data set, queried on one machine (DuckDB) and on a cluster (Dask); see docs/fleet.md.

    ~/.cache/panthor-trace/venv/bin/python scripts/fleet_example.py [DIRECTORY]

makes 240 traces of four boards (none was recorded: they are told by the stories of tests/unit), exports them
as ``panthor-trace export --fleet`` does, and asks both engines the same three questions.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

BOARDS = ("rock5b", "rock5c", "orangepi5", "nanopi-r6c")
UBATCHES = (64, 128, 256, 512)
TRACES = 240


def generate(directory: Path, count: int = TRACES) -> dict[str, list[Path]]:
    """Write ``count`` traces; where they are, by board."""
    from tests.unit.stories import STORIES
    from tests.unit.synthetic import SyntheticTrace, save

    found: dict[str, list[Path]] = {board: [] for board in BOARDS}
    for number in range(count):
        story, board = STORIES[number % len(STORIES)], BOARDS[number % len(BOARDS)]
        run = SyntheticTrace(pid=1000 + number)
        for _ in range(number % 7):  # some runs take more than others
            run.vm_bind((run.bo_create((number + 1) << 16), (number + 1) << 16), va=0x4000_0000)
        story.tell(run)
        where = save(
            run.finish(story.exit_code),
            directory / board / f"llama-bench-{number:04}",
            command=["llama-bench", "-m", "model.gguf", "-ub", str(UBATCHES[number // 16 % 4])],
            started=f"2026-11-30T12:{number // 60:02}:{number % 60:02}+00:00",
            machine={"hostname": board, "kernel": ("6.12.117", "7.3.4")[number // 8 % 2]},
            version="example",
        )
        found[board].append(where)
    return found


def add_to_fleet(dataset: Path, traces: dict[str, list[Path]]) -> None:
    """What each board does after a night's runs: ``panthor-trace export --fleet DATASET --partition …``."""
    from panthor_trace.commands.export import export

    for board, directories in traces.items():
        if not directories:
            continue
        words = ["--fleet", str(dataset), "--partition", f"board={board}", "--quiet", *map(str, directories)]
        export.main(words, standalone_mode=False)


#: A question in SQL, with the name of its answer.
QUESTIONS = {
    "what ended the runs, by kernel and board": """
        SELECT cause, kernel, board, count(*) AS traces
        FROM traces GROUP BY ALL ORDER BY ALL""",
    "what the kernel refused, and inside which function of the driver": """
        SELECT name, errno, origin, count(DISTINCT trace) AS traces, count(*) AS times
        FROM ioctls WHERE failed GROUP BY ALL ORDER BY ALL""",
    "GPU memory by what it was for, largest first, in runs that a kernel refusal ended": """
        SELECT pool, count(*) AS buffers, sum(bos.size)::UBIGINT AS bytes
        FROM bos JOIN traces USING (trace, board)
        WHERE cause LIKE 'kernel-%' AND handle IS NOT NULL GROUP BY pool ORDER BY bytes DESC, pool""",
}


def ask_duckdb(dataset: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The answers of DuckDB: a view a table, then SQL."""
    import duckdb

    with duckdb.connect() as connection:
        for table in ("traces", "ioctls", "bos"):
            connection.from_parquet(
                str(dataset / table / "**" / "*.parquet"), hive_partitioning=True, union_by_name=True
            ).create_view(table)
        return {name: connection.sql(query).fetchall() for name, query in QUESTIONS.items()}


def ask_dask(dataset: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The answers of Dask, on a cluster of two processes; on a real one, give Client its address."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    def table(name: str, columns: list[str]) -> Any:
        # Files are small: let a task read many of them.
        frame = dd.read_parquet(dataset / name, columns=columns, aggregate_files=True)
        return frame.assign(board=frame["board"].astype(str)) if "board" in columns else frame

    def rows(frame: Any) -> list[tuple[Any, ...]]:
        frame = frame.astype(object).where(frame.notna(), None)
        return [tuple(row) for row in frame.itertuples(index=False)]

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        traces = table("traces", ["trace", "board", "cause", "kernel"])
        by_cause = traces.groupby(["cause", "kernel", "board"]).size().compute()
        ioctls = table("ioctls", ["trace", "name", "errno", "origin", "failed"])
        refused = ioctls[ioctls["failed"]].compute()
        bos = table("bos", ["trace", "board", "pool", "size", "handle"])
        bos = bos[bos["handle"].notnull()].merge(
            traces[traces["cause"].str.startswith("kernel-")], on=["trace", "board"]
        )
        pools = bos.groupby("pool")["size"].agg(["count", "sum"]).compute()
    by_name = refused.groupby(["name", "errno", "origin"], dropna=False)["trace"].agg(["nunique", "size"])
    return dict(
        zip(
            QUESTIONS,
            [
                rows(by_cause.rename("traces").reset_index().sort_values(["cause", "kernel", "board"])),
                rows(by_name.reset_index().sort_values(["name", "errno", "origin"], na_position="last")),
                rows(pools.reset_index().sort_values(["sum", "pool"], ascending=[False, True])),
            ],
            strict=True,
        )
    )


def main() -> None:
    """All of it, with the answers on standard output."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary)
        traces = generate(directory / "traces")
        add_to_fleet(directory / "fleet", traces)
        answers = {"DuckDB": ask_duckdb(directory / "fleet"), "Dask": ask_dask(directory / "fleet")}
    for question in QUESTIONS:
        print(f"\n{question}:")
        for row in answers["DuckDB"][question]:
            print("   ", *("-" if value is None else value for value in row))
        agree = answers["Dask"][question] == answers["DuckDB"][question]
        print("  Dask says the same" if agree else f"  Dask says otherwise: {answers['Dask'][question]}")


if __name__ == "__main__":
    main()
