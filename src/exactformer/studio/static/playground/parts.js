// Which matrices belong to which part, and what x does there.

// Softmax gives every token a share; shares below this are not ringed.
const VISIBLE = 1e-3;

export function partsOf(found, at) {
  const own = (prefix) =>
    found.matrices
      .filter((m) => m.path.startsWith(prefix))
      .map((panel) => ({ id: panel.path, panel, options: { title: plain(panel.title), note: shapeOf(panel) } }));
  const stream = (name, title) => {
    const panel = at?.streams.find((s) => s.name === name);
    return panel ? [{ id: name, panel, options: { title } }] : [];
  };
  const weights = (prefix) => ({ title: "Weights, the same for every x", panels: own(prefix) });
  const here = (panels) => ({ title: "At this x", panels });
  const blocks = found.blocks.map((block, b) => ({
    key: `block-${b + 1}`,
    name: `Block ${b + 1}`,
    groups: [here([...attention(at, b + 1, block), ...stream(`block ${b + 1} output`, "stream after the block")]), weights(`blocks.${b}.`)],
  }));
  return [
    { key: "embedding", name: "Embedding", groups: [here(stream("tokens", "tokens at x")), weights("embedding")] },
    ...blocks,
    { key: "readout", name: "Readout", groups: [here(last(found, at)), weights("readouts")] },
  ].map((part) => ({ ...part, groups: part.groups.filter((group) => group.panels.length) }));
}

function attention(at, b, block) {
  const heads = (at?.attention ?? []).filter((head) => head.name === `block ${b}` || head.name.startsWith(`block ${b} head`));
  return heads.flatMap((head) => {
    const which = block.heads > 1 ? `, ${head.name.replace(`block ${b} `, "")}` : "";
    const rings = head.selection.entries.filter((entry) => Math.abs(entry[2]) > VISIBLE).map(([i, j]) => [i, j]);
    return [
      { id: `${head.name} scores`, panel: head.scores, options: { title: `scores${which}`, rings, summary: "ringed: selected" } },
      { id: `${head.name} selection`, panel: head.selection, options: { title: `selected${which}` } },
    ];
  });
}

function last(found, at) {
  const name = found.blocks.length ? `block ${found.blocks.length} output` : "tokens";
  const panel = at?.streams.find((s) => s.name === name);
  return panel ? [{ id: "last", panel, options: { title: "stream that is read" } }] : [];
}

const plain = (title) => title.replace(/^block \d+, /, "").replace(/^(embedding|readout( \d+)?) /, "");

function shapeOf(panel) {
  const [n, m] = panel.shape;
  const blocks = panel.blocks ? `, in ${panel.blocks[0]} × ${panel.blocks[1]} blocks` : "";
  return `${n} × ${m}, ${panel.nonzeros.toLocaleString("en-GB")} non-zero${blocks}`;
}
