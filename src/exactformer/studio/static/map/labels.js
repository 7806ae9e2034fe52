// Labels stay readable however far the map is zoomed out: their letters keep a size on the screen,
// and where two would touch, the node that matters more keeps its label. The others show theirs when
// they are pointed at, chosen or zoomed to.

const LETTERS = 11;
const LARGEST = 34;
const WIDTH = 0.53;
const LINE = 17;

export function label(cy) {
  const font = Math.round(Math.min(LARGEST, Math.max(12, LETTERS / cy.zoom())));
  const placed = [];
  const nodes = cy.nodes().toArray().sort((a, b) => rank(b) - rank(a));
  cy.batch(() => {
    for (const node of nodes) {
      const own = node.hasClass("centre") ? 1.15 * font : font;
      const box = around(node, own);
      const free = placed.every((other) => apart(box, other));
      if (free) placed.push(box);
      node.data("font", own);
      node.toggleClass("unnamed", !free);
    }
  });
}

function rank(node) {
  const first = node.hasClass("chosen") * 4e6 + node.hasClass("centre") * 2e6;
  return first + node.data("degree");
}

function around(node, font) {
  const { x, y } = node.position();
  const letters = node.data("short").length;
  const width = Math.min(letters, LINE) * font * WIDTH;
  const top = y + node.height() / 2;
  const height = font * 1.15 * Math.ceil(letters / LINE);
  return { left: x - width / 2, right: x + width / 2, top, bottom: top + height + 4 };
}

function apart(a, b) {
  return a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
}
