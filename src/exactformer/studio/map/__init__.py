"""The research map: papers, people, institutions, topics and claims as one graph.

Nothing is stored for it: nodes and edges are read off the tables of the library through their
indices, so that the map is never older than the page. What is asked of it is bounded, whatever the
size of the library: a slice by its number of nodes, a shortest path by the nodes it may visit.
"""

from exactformer.studio.map.node_search import search
from exactformer.studio.map.nodes import Node, describe
from exactformer.studio.map.paths import Route, shortest_path
from exactformer.studio.map.relations import KINDS, Edge, Key
from exactformer.studio.map.slices import Slice, explore, start
from exactformer.studio.map.views import Entry, Relationship, State, View, look

__all__ = [
    "KINDS",
    "Edge",
    "Entry",
    "Key",
    "Node",
    "Relationship",
    "Route",
    "Slice",
    "State",
    "View",
    "describe",
    "explore",
    "look",
    "search",
    "shortest_path",
    "start",
]
