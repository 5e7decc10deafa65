"""Figures of results, one kind per module.

Each function takes a Dataset and an `ax`, draws means over replicates with 95 % confidence intervals, and returns the Axes.
Curves differ in marker and line style as well as in colour, areas in hatches. Models are lines without markers.
"""

from warpsim.views.plots.benefit_chart import benefit_chart
from warpsim.views.plots.distribution import latency_distribution
from warpsim.views.plots.heatmap import heatmap
from warpsim.views.plots.kinds import KINDS, Kind, draw
from warpsim.views.plots.latency import latency_vs_bandwidth
from warpsim.views.plots.lifelines import warp_lifelines
from warpsim.views.plots.lines import plot
from warpsim.views.plots.needed_warps import needed_warps_vs_alpha
from warpsim.views.plots.occupancy_time import occupancy_over_time
from warpsim.views.plots.overlay import overlay
from warpsim.views.plots.roofline import roofline
from warpsim.views.plots.selection import held_fixed, select
from warpsim.views.plots.states import stacked_states
from warpsim.views.plots.style import paper, save
from warpsim.views.plots.throughput import throughput_vs_warps

__all__ = [
    "KINDS",
    "Kind",
    "benefit_chart",
    "draw",
    "heatmap",
    "held_fixed",
    "latency_distribution",
    "latency_vs_bandwidth",
    "needed_warps_vs_alpha",
    "occupancy_over_time",
    "overlay",
    "paper",
    "plot",
    "roofline",
    "save",
    "select",
    "stacked_states",
    "throughput_vs_warps",
    "warp_lifelines",
]
