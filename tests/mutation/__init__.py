"""Mutants of the package: each has one place changed, and a named test must notice.

python -m tests.mutation --check       does every mutant apply, and do its tests exist? In seconds
python -m tests.mutation --run TEXT    runs the mutants whose key contains TEXT
python -m tests.mutation PART PARTS    runs one part of the list
"""

from tests.mutation.mutant import DoesNotApply, Mutant
from tests.mutation.run import ROOT, part_of

__all__ = ["ROOT", "DoesNotApply", "Mutant", "part_of"]
