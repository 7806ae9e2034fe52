// Which matrices belong to which part, and what x does there.

// Softmax gives every token a share; shares below this are not ringed.
const VISIBLE = 1e-3;

// Of a block with several heads, one at a time is shown: `head`, from 1.
export function partsOf(found, at, head) {
  const own = (prefix) =>
    found.matrices
      .filter(
        (m) =>
          m.path.startsWith(prefix) &&
          (!m.path.includes(".heads.") ||
            m.path.startsWith(`${prefix}heads.${shownHead(found, prefix, head) - 1}.`)),
      )
      .map((panel) => ({
        id: plain(panel.title),
        panel,
        options: { title: plain(panel.title), note: shapeOf(panel), tall: 300 },
      }));
  const stream = (name, title) => {
    const panel = at?.streams.find((s) => s.name === name);
    return panel ? [{ id: name, panel, options: { title } }] : [];
  };
  const weights = (prefix) => ({ title: "Weights, the same for every x", panels: own(prefix) });
  const here = (panels) => ({ title: "At this x", panels });
  const blocks = found.blocks.map((block, b) => ({
    key: `block-${b + 1}`,
    name: `Block ${b + 1}`,
    heads: block.heads,
    groups: [
      here([
        ...attention(at, b + 1, block, head),
        ...stream(`block ${b + 1} output`, "stream after the block"),
      ]),
      weights(`blocks.${b}.`),
    ],
  }));
  return [
    {
      key: "embedding",
      name: "Embedding",
      groups: [here(stream("tokens", "tokens at x")), weights("embedding")],
    },
    ...blocks,
    { key: "readout", name: "Readout", groups: [here(last(found, at)), weights("readouts")] },
  ].map((part) => ({ ...part, groups: part.groups.filter((group) => group.panels.length) }));
}

export const within = (head, block) => Math.min(Math.max(1, Number(head) || 1), block.heads);

const shownHead = (found, prefix, head) => within(head, found.blocks[Number(prefix.split(".")[1])]);

function attention(at, b, block, head) {
  const name = block.heads > 1 ? `block ${b} head ${within(head, block)}` : `block ${b}`;
  const found = at?.attention.find((one) => one.name === name);
  if (!found) return [];
  const isSoft = block.rule === "softmax";
  const rings = found.selection.entries
    .filter((entry) => Math.abs(entry[2]) > VISIBLE)
    .map(([i, j]) => [i, j]);
  return [
    {
      id: "scores",
      panel: found.scores,
      options: {
        title: "scores",
        rings,
        summary: isSoft ? "ringed: attended to" : "ringed: selected",
      },
    },
    {
      id: "selection",
      panel: found.selection,
      options: { title: isSoft ? "attention" : "selected" },
    },
  ];
}

function last(found, at) {
  const name = found.blocks.length ? `block ${found.blocks.length} output` : "tokens";
  const panel = at?.streams.find((s) => s.name === name);
  return panel ? [{ id: "last", panel, options: { title: "stream that is read" } }] : [];
}

const plain = (title) =>
  title.replace(/^block \d+, (head \d+, )?/, "").replace(/^(embedding|readout( \d+)?) /, "");

function shapeOf(panel) {
  const [n, m] = panel.shape;
  const blocks = panel.blocks ? `, in ${panel.blocks[0]} × ${panel.blocks[1]} blocks` : "";
  return `${n} × ${m}, ${panel.nonzeros.toLocaleString("en-GB")} non-zero${blocks}`;
}
