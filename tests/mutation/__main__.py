"""The command line that the package's docstring describes."""

import json
import sys

from tests.mutation.run import check, part_of, run_all
from tests.test_mutants import MUTANTS

if sys.argv[1] == "--check":
    wrong, elsewhere = check(MUTANTS)
    print(*elsewhere, *wrong, sep="\n")
    print(f"{len(MUTANTS)} mutants: {len(elsewhere)} apply elsewhere or under other names, {len(wrong)} things are wrong")
    sys.exit(1 if wrong else 0)
if sys.argv[1] == "--run":
    chosen = [mutant for mutant in MUTANTS if sys.argv[2] in mutant.key]
else:
    chosen = part_of(MUTANTS, *map(int, sys.argv[1:]))
json.dump(run_all(chosen), sys.stdout, ensure_ascii=False, indent=1)
