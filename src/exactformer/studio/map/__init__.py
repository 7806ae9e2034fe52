"""The research map: papers, people, institutions, topics and claims as one graph.

Nothing is stored for it: nodes and edges are read off the tables of the library through their
indices, so that the map is never older than the page. What is asked of it is bounded, whatever the
size of the library: a slice by its number of nodes, a shortest path by the nodes it may visit.
"""
