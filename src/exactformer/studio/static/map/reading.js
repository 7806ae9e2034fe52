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
      step: entry.dataset.step === undefined ? -1 : Number(entry.dataset.step),
    },
    classes: [
      "centre" in entry.dataset && "centre",
      "step" in entry.dataset && "path",
    ].filter(Boolean),
  }));
  const steps = new Map(nodes.map(({ data }) => [data.id, data.step]));
  const edges = [...view.querySelectorAll("[data-relation]")].map((link) => {
    const source = link.closest("[data-node]").dataset.node;
    const { relation, target } = link.dataset;
    const ends = [steps.get(source), steps.get(target)];
    const onPath = Math.min(...ends) >= 0 && Math.abs(ends[0] - ends[1]) === 1;
    return {
      group: "edges",
      data: { id: `${source} ${relation} ${target}`, source, target, relation },
      classes: onPath ? ["path"] : [],
    };
  });
  return { nodes, edges };
}

export function entry(view, id) {
  return view.querySelector(`[data-node="${CSS.escape(id)}"]`);
}
