// Nodes and edges as the drawing library wants them, read off the list that says the same in words.

export function elements(view) {
  const nodes = [...view.querySelectorAll("[data-node]")].map((entry) => ({
    group: "nodes",
    data: {
      id: entry.dataset.node,
      kind: entry.dataset.kind,
      tone: entry.dataset.tone ?? "",
      short: entry.dataset.short,
      font: 12,
      degree: Number(entry.dataset.degree),
    },
    classes: "centre" in entry.dataset ? ["centre"] : [],
  }));
  const edges = [...view.querySelectorAll("[data-relation]")].map((link) => {
    const source = link.closest("[data-node]").dataset.node;
    const { relation, target } = link.dataset;
    const id = `${source} ${relation} ${target}`;
    return { group: "edges", data: { id, source, target, relation } };
  });
  return { nodes, edges };
}

export function entry(view, id) {
  return view.querySelector(`[data-node="${CSS.escape(id)}"]`);
}
