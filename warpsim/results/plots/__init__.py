"""Figures of results, one picture to a file.

Each takes a Dataset and an `ax`, draws means over replicates with 95 % intervals, and returns the Axes.
Curves differ by marker and line style as well as by colour, areas by hatches. Models are lines without markers.
"""

from warpsim.results.plots.benefit_chart import benefit_chart
from warpsim.results.plots.distribution import latency_distribution
from warpsim.results.plots.heatmap import heatmap
from warpsim.results.plots.kinds import KINDS, Kind, draw
from warpsim.results.plots.latency import latency_vs_bandwidth
from warpsim.results.plots.lifelines import warp_lifelines
from warpsim.results.plots.lines import plot
from warpsim.results.plots.needed_warps import needed_warps_vs_alpha
from warpsim.results.plots.occupancy_time import occupancy_over_time
from warpsim.results.plots.overlay import overlay
from warpsim.results.plots.roofline import roofline
from warpsim.results.plots.selection import select
from warpsim.results.plots.states import stacked_states
from warpsim.results.plots.style import paper, save
from warpsim.results.plots.throughput import throughput_vs_warps

__all__ = [
    "KINDS",
    "Kind",
    "benefit_chart",
    "draw",
    "heatmap",
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
