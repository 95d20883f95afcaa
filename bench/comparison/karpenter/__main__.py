"""``python -m bench.comparison.karpenter``: Karpenter's own specifications, with our planner in place of its solver.

Needs Go, a network for the Go module proxy, and etcd and kube-apiserver in the folder that KUBEBUILDER_ASSETS names.
Exit code 1: a specification fails that known.toml does not name, or one passes that it names; 2: they cannot be run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from bench.comparison.karpenter.outcome import judged, lines, read_known, read_report
from bench.comparison.karpenter.planner import planner
from bench.comparison.karpenter.source import (
    SUITES,
    VERSION,
    Refused,
    built,
    cache_folder,
    prepared,
)

ASSETS = "KUBEBUILDER_ASSETS"
PROGRAMS = ("etcd", "kube-apiserver")
ADDRESS = "DOVETAIL_SIMULATE"
MINUTES = 60
"""One run of one suite, on a slow machine."""


def main() -> int:
    options = _options()
    try:
        _require_programs()
        copy = prepared(options.version, cache_folder())
        return max([_run(suite, copy, options) for suite in options.suites])
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"{' or '.join(SUITES)}; default: scheduling"
    )
    parser.add_argument("--version", default=VERSION, help=f"of Karpenter's module ({VERSION})")
    parser.add_argument("--baseline", action="store_true", help="with Karpenter's own solver")
    parser.add_argument("--focus", default="", help="only specifications whose name matches")
    parser.add_argument("--skip", default="", help="none whose name matches")
    parser.add_argument("--keep", type=Path, help="folder for each question and its answer")
    options = parser.parse_args()
    options.suites = options.suites or ["scheduling"]
    if unknown := set(options.suites) - set(SUITES):
        parser.error(f"no suite {sorted(unknown)[0]!r}; there are {', '.join(SUITES)}")
    return options


def _require_programs() -> None:
    folder = os.environ.get(ASSETS, "")
    absent = [name for name in PROGRAMS if not os.access(Path(folder) / name, os.X_OK)]
    if absent:
        raise Refused(
            f"set {ASSETS} to a folder with {' and '.join(absent)}, as setup-envtest makes it"
        )


def _run(suite: str, copy: Path, options: argparse.Namespace) -> int:
    program = built(copy, suite)
    report = copy / f"{suite}.json"
    if options.baseline:
        _specify(program, copy / SUITES[suite], report, options, {})
        known: dict[str, list[str]] = {}
    else:
        with planner(options.keep) as address:
            _specify(program, copy / SUITES[suite], report, options, {ADDRESS: address})
        known = read_known(suite)
    outcome = judged(read_report(report), known)
    print("\n".join(lines(suite, outcome)))
    return 0 if outcome.is_as_known else 1


def _specify(
    program: Path, folder: Path, report: Path, options: argparse.Namespace, more: dict[str, str]
) -> None:
    """Runs the specifications and leaves Ginkgo's report."""
    report.unlink(missing_ok=True)
    command = [
        str(program),
        f"-test.timeout={MINUTES}m",
        f"-ginkgo.json-report={report}",
        "-ginkgo.no-color",
    ]
    command += [f"-ginkgo.focus={options.focus}"] if options.focus else []
    command += [f"-ginkgo.skip={options.skip}"] if options.skip else []
    log = report.with_suffix(".log")
    with log.open("w") as out:
        subprocess.run(
            command, cwd=folder, env={**os.environ, **more}, stdout=out, stderr=out, check=False
        )
    if not report.exists():
        raise Refused(f"the specifications left no report; see {log}")


if __name__ == "__main__":
    sys.exit(main())
