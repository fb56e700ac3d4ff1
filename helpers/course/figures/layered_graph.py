"""Layers of a graph without circles, in an order in which few of its arrows cross."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from statistics import fmean
from typing import NamedTuple

SWEEPS = 12  # there and back; the best order that they meet is kept

Needs = Mapping[str, Sequence[str]]
"""For each node, those that it needs."""


class Dummy(NamedTuple):
    """Where the arrows of `source` pass a layer on their way to a later one."""

    source: str
    layer: int


Node = str | Dummy
"""A node, or where arrows pass."""


class Layered(NamedTuple):
    """The spots of every layer, from above, and the arrows, each from one layer to the next."""

    layers: list[list[Node]]
    links: list[tuple[Node, Node]]


def ranks(needs: Needs) -> dict[str, int]:
    """The layer of each node, the one after the last that it needs; of those on no circle."""
    found: dict[str, int] = {}
    while True:
        ready = [name for name in needs if name not in found and found.keys() >= set(needs[name])]
        if not ready:
            return found
        for name in ready:
            found[name] = 1 + max((found[other] for other in needs[name]), default=-1)


def transitive_reduction(needs: Needs) -> dict[str, list[str]]:
    """The same without what a node needs by way of another that it needs."""
    depth, behind = ranks(needs), dict[str, set[str]]()
    for name in sorted(needs, key=lambda name: depth[name]):
        behind[name] = set(needs[name]).union(*(behind[other] for other in needs[name]))
    return {
        name: [one for one in others if not any(one in behind[other] for other in others)]
        for name, others in needs.items()
    }


def layered(needs: Needs) -> Layered:
    """The layers, ordered by the mean place of their neighbours: Sugiyama, Tagawa and Toda,
    "Methods for visual understanding of hierarchical system structures", 1981,
    https://doi.org/10.1109/TSMC.1981.4308636.
    """
    drawn = _with_passings(needs)
    best = drawn
    for sweep in range(SWEEPS):
        drawn = _ordered(drawn, backwards=bool(sweep % 2))
        if crossings(drawn) < crossings(best):
            best = drawn
    return best


def crossings(drawn: Layered) -> int:
    """How many pairs of arrows cross."""
    place = {spot: k for layer in drawn.layers for k, spot in enumerate(layer)}
    count = 0
    for layer in drawn.layers:
        ends = [(place[a], place[b]) for a, b in drawn.links if a in layer]
        count += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(ends, 2))
    return count


def _with_passings(needs: Needs) -> Layered:
    depth = ranks(needs)
    layers: list[dict[Node, None]] = [{} for _layer in range(max(depth.values()) + 1)]
    links: dict[tuple[Node, Node], None] = {}
    for name in needs:
        layers[depth[name]][name] = None
    for name, others in needs.items():
        for other in others:
            between = [Dummy(other, level) for level in range(depth[other] + 1, depth[name])]
            for passing in between:
                layers[passing.layer][passing] = None
            links |= dict.fromkeys(pairwise([other, *between, name]))
    return Layered([list(layer) for layer in layers], list(links))


def _ordered(drawn: Layered, *, backwards: bool) -> Layered:
    """One sweep through the layers, each ordered by the places of those before it."""
    layers = list(drawn.layers)
    order = range(len(layers) - 1, -1, -1) if backwards else range(len(layers))
    pairs = [(b, a) if backwards else (a, b) for a, b in drawn.links]
    for before, level in pairwise(order):
        place = {spot: k for k, spot in enumerate(layers[before])}
        means = {
            spot: fmean([place[a] for a, b in pairs if b == spot and a in place] or [k])
            for k, spot in enumerate(layers[level])
        }
        layers[level] = sorted(layers[level], key=means.__getitem__)
    return Layered(layers, drawn.links)
