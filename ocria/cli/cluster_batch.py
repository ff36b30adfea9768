"""`ocria batch`: many documents on a Ray cluster, or on this machine through Ray."""

from __future__ import annotations

import argparse
from typing import Any

from ocria.batch.options import FAIL_ON, FORMATS
from ocria.cli.help import epilog
from ocria.cli.parse import formats_of
from ocria.cli.parser import Parser
from ocria.errors import UsageError
from ocria.events import Note
from ocria.progress import Reporter

_DESCRIPTION = """\
Read many documents on a Ray cluster: one engine for each GPU, or for each few
cores, results as Parquet or JSON Lines. INPUT is a folder with all below it, a
pattern, a list of paths (.txt), or a manifest (.csv, .jsonl, .parquet) with
`path` and perhaps `pages` and `id`. INPUT and --out are paths that all machines
see, or URLs that fsspec opens. What is done is passed over when the same
command is given again. Needs ocria[ray]; docs/cluster.md tells more.

For some thousand pages on one machine, `ocria parse -r` is simpler.
"""
_EXAMPLES = [
    ("ocria batch scans --out results", "A folder, by a Ray that is started on this machine."),
    ("ocria batch s3://bucket/scans --out s3://bucket/text --ray auto", "By the cluster that this machine is part of."),
    ("ocria batch todo.parquet --out /mnt/text --documents md,json --actors 2-16", "Whole documents too."),
]
# Options of `ocria parse` that mean nothing here.
_LEFT_OUT = {
    "help", "recursive", "include", "exclude", "files_from", "null", "pages", "output", "output_dir", "format",
    "overwrite", "record", "resume", "retry_failed", "fail_on", "dry_run",
}  # fmt: skip


def add_batch(commands: Any, parse: Parser) -> None:
    """`parse`: the parser of the command whose options this one has too."""
    parser = commands.add_parser(
        "batch",
        help="read many documents on a Ray cluster",
        description=_DESCRIPTION,
        epilog=epilog(_EXAMPLES, exit_codes=True, engine=True, messages=True),
    )
    parser.set_defaults(run=_batch)
    parser.add_argument("source", metavar="INPUT", help="a folder, a pattern, a list or a manifest: path or URL")
    results = parser.add_argument_group("results")
    results.add_argument("--out", metavar="URL", help="folder of the results: path or URL (required)")
    results.add_argument("--shards", choices=("parquet", "jsonl"), default="parquet", help="(default: parquet)")
    documents = results.add_argument(
        "--documents",
        action="extend",
        type=formats_of,
        metavar="FORMAT",
        help=f"write whole documents too: {', '.join(FORMATS)}; several by commas or repeated",
    )
    documents.completions = FORMATS  # type: ignore[attr-defined]
    results.add_argument("--retry-failed", action="store_true", help="read once more what did not come out whole")
    results.add_argument(
        "--max-errors", type=int, metavar="N", help="end the run when more than N documents failed (default: never)"
    )
    results.add_argument(
        "--fail-on",
        choices=FAIL_ON,
        default="partial",
        help="what the exit code tells: failed documents and pages (partial, the default), failed documents alone "
        "(failure), or neither (never)",
    )
    cluster = parser.add_argument_group("cluster")
    cluster.add_argument(
        "--ray", metavar="ADDRESS", help="of the cluster, such as auto or 10.0.0.1:6379 (default: start Ray here)"
    )
    cluster.add_argument(
        "--actors", metavar="N|MIN-MAX", help="engines (default: from 1 to what the cluster has room for)"
    )
    cluster.add_argument(
        "--cores-per-actor", type=int, default=2, metavar="N", help="CPU cores of each engine (default: 2)"
    )
    cluster.add_argument(
        "--rows-per-shard",
        type=int,
        default=16,
        metavar="N",
        help="documents that an engine takes at once and writes as one shard (default: 16)",
    )
    cluster.add_argument(
        "--pages-per-row",
        type=int,
        default=128,
        metavar="N",
        help="read longer documents in parts of N pages, by several engines (default: 128)",
    )
    cluster.add_argument(
        "--interval", type=float, default=10.0, metavar="SECONDS", help="between lines of progress (default: 10)"
    )
    parser.share(parse, _LEFT_OUT)


def _batch(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.cluster.start import need_ray

    if options.out is None:
        raise UsageError("--out is required", cure="Name a folder that all machines see, or a URL such as s3://…")
    need_ray()
    from ocria.batch.summary import failure_table, summary_line
    from ocria.cli.interrupt import cancel_on_signals
    from ocria.cluster.capacity import engine_days, pages_per_hour
    from ocria.cluster.options import ClusterOptions
    from ocria.cluster.run import run_cluster
    from ocria.document.options import OPTION_NAMES, ParseOptions
    from ocria.password import given_password

    chosen = {name: getattr(options, name) for name in OPTION_NAMES if name != "pages"}
    chosen["password"] = given_password(options.password, options.password_file)
    cluster = ClusterOptions(
        source=options.source,
        out=options.out,
        address=options.ray,
        actors=options.actors,
        cores_per_actor=options.cores_per_actor,
        shards=options.shards,
        rows_per_shard=options.rows_per_shard,
        pages_per_row=options.pages_per_row,
        documents=tuple(dict.fromkeys(options.documents or ())),
        page_markers=options.page_markers,
        max_errors=options.max_errors,
        retry_failed=options.retry_failed,
        interval_s=options.interval,
    )
    told = not options.quiet and options.progress != "none"
    with reporter:
        outcome = run_cluster(
            ParseOptions(**chosen),
            cluster,
            cancel=cancel_on_signals(reporter.stopping()),
            tell=reporter.say if told else None,
            show=reporter.show if told else None,
        )
        if outcome.too_many_errors:
            reporter.show(Note("error", f"ended: more than {options.max_errors} documents failed"))
        elif outcome.stopped:
            reporter.show(Note("info", "interrupted; what is done is kept, and the same command goes on"))
        if outcome.bad_before:  # the exit code is theirs too
            what = f"{outcome.bad_before} of those skipped did not come out whole in an earlier run"
            reporter.show(Note("warning", f"{what}; --retry-failed reads them again"))
        reporter.show(outcome.tally.done(outcome.seconds))
    if not options.quiet and options.progress != "json":  # in JSON events have said it
        for line in failure_table(outcome.tally.failures):
            reporter.say(line)
        reporter.say(summary_line(outcome.tally.done(outcome.seconds)))
    if told and outcome.tally.pages:
        pace = pages_per_hour(outcome.tally.pages, outcome.engine_seconds)
        days = engine_days(1_000_000, pace)
        reporter.say(f"an engine read {pace:.0f} pages an hour; a million pages take {days:.1f} days of one")
    return outcome.exit_code(options.fail_on)
