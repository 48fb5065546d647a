"""`labkit.plan`: which configuration of a model on a cluster is fast, and which does not fit.

model           a network as a planner sees it
cluster         the devices, and the budget
configuration   replicas, stages, parts, and how replicas agree
memory          how many bytes the fullest rank keeps
seconds         how long a step takes
plan            all configurations ranked, or rejected with the reason
published       published runs to be held against
"""

from labkit.simulate.planner.cluster import Budget, Cluster, a100
from labkit.simulate.planner.configuration import Configuration
from labkit.simulate.planner.model import Model
from labkit.simulate.planner.plan import Plan, Plans, plan, predict
from labkit.simulate.planner.published import MEGATRON, ONE_DEVICE, Run

__all__ = [
    "MEGATRON",
    "ONE_DEVICE",
    "Budget",
    "Cluster",
    "Configuration",
    "Model",
    "Plan",
    "Plans",
    "Run",
    "a100",
    "plan",
    "predict",
]
