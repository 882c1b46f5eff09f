"""Strategies of densification by name. A strategy is one module and one row here."""

from hardsplat.train.strategies.budget import Budget
from hardsplat.train.strategies.mcmc import Mcmc
from hardsplat.train.strategies.published import Published
from hardsplat.train.strategies.strategy import Strategy

STRATEGIES: dict[str, type[Strategy]] = {
    "budget": Budget,
    "adaptive": Published,
    "mcmc": Mcmc,
    "none": Strategy,
}
