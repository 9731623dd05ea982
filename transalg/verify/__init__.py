"""The engine compared with the formal algorithms, as a tool: equalities, invariances, the cases to look at; and a check of anyone's module."""

from transalg.verify.findings import Finding, Findings
from transalg.verify.module import check

__all__ = ["Finding", "Findings", "check"]
