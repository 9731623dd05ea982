"""The command line that the package's docstring describes."""

import argparse
import sys
from pathlib import Path

from tests.faults import kills
from tests.faults.cases import quick_cases
from tests.faults.run import Result, counts, prepared, run_cases
from tests.faults.table import table, write

QUICK = 200  # cases in `make test`
KILLS = 1000


def failure(result: Result) -> str:
    """What went wrong, what it printed, and how to see it again."""
    said = "\n    ".join(line[:300] for line in result.outcome.err.strip().splitlines()[-3:])
    return f"{result.case.title}\n  {'; '.join(result.wrong)}\n    {said}\n  python -m tests.faults --case {result.number}"


def show(result: Result) -> None:
    if result.wrong:
        print(failure(result), file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description="Damages folders and files, and looks whether the commands hold."
    )
    parser.add_argument("--quick", type=int, nargs=2, metavar=("PART", "PARTS"))
    parser.add_argument("--only", metavar="TEXT")
    parser.add_argument("--case", type=int, metavar="N")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--kills", type=int, metavar="N")
    parser.add_argument("--write", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    target = chosen.write.absolute() if chosen.write else None
    if chosen.kills is not None:
        held = kills.run(chosen.kills)
        print(table([("kills while training", chosen.kills, held)]))
        return 0 if held == chosen.kills else 1
    with prepared() as (base, cases):
        numbers = list(range(len(cases)))
        if chosen.quick:
            part, parts = chosen.quick
            numbers = quick_cases(cases, QUICK)[part::parts]
        elif chosen.only is not None:
            numbers = [i for i, case in enumerate(cases) if chosen.only in case.title or chosen.only in case.kind]
        elif chosen.case is not None:
            numbers = [chosen.case]
        if chosen.list:
            print(*(f"{i:5} {cases[i].kind}: {cases[i].title!r}" for i in numbers), sep="\n")
            return 0
        results = run_cases(base, cases, numbers, show)
    if chosen.case is not None:
        (result,) = results
        print(
            f"{result.case.title}\nexit status {result.outcome.status}\n{result.outcome.out}{result.outcome.err}{'; '.join(result.wrong) or 'held'}"
        )
        return 1 if result.wrong else 0
    rows = counts(results)
    if not chosen.quick and chosen.only is None:
        rows.append(("kills while training", KILLS, kills.run(KILLS)))
    print(table(rows))
    if target:
        write(target, table(rows))
    return 0 if all(tried == held for _, tried, held in rows) else 1


sys.exit(main())
