"""Which layers get which format: sensitivities, the frontier of loss against bytes, and the choice within a bound."""

from ocria.quant.search.bound import Bound
from ocria.quant.search.report import SearchReport
from ocria.quant.search.run import run_search

__all__ = ["Bound", "SearchReport", "run_search"]
