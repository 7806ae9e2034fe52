// Where nodes go: around the centre by distance at first, then by springs along edges and repulsion
// between all, for a fixed number of rounds; then apart until no two labels touch. Nothing is
// left to chance: the same slice is always drawn the same way.

const RING = 150;
const ROUNDS = 260;
const LENGTH = 88;
const GRAVITY = 0.75;
const APART = 80;
const LETTER = 6.2;

export function arrange(cy, known) {
  const aspect = Math.min(3.2, Math.max(0.6, cy.width() / Math.max(1, cy.height())));
  const fresh = cy.nodes().filter((node) => !known.has(node.id()));
  if (fresh.length === cy.nodes().length) rings(cy, aspect);
  beside(fresh);
  const points = cy.nodes().map((node) => point(node, aspect));
  const places = new Map(points.map((p, i) => [p.node.id(), i]));
  const place = (node) => places.get(node.id());
  const springs = cy.edges().map((edge) => [place(edge.source()), place(edge.target())]);
  settle(points, springs);
  for (const p of points) p.x *= aspect;
  separate(points);
  cy.batch(() => points.forEach(({ node, x, y }) => node.position({ x, y })));
}

function point(node, aspect) {
  const { x, y } = node.position();
  const letters = Math.min(17, node.data("short").length);
  const lines = Math.ceil(node.data("short").length / 17);
  return {
    node,
    x: x / aspect,
    y,
    width: Math.max(node.width(), letters * LETTER) + 10,
    height: node.height() + 14 * lines + 12,
    fixed: node.hasClass("centre"),
  };
}

function rings(cy, aspect) {
  const rounds = new Map();
  cy.elements().bfs({
    roots: cy.nodes(".centre"),
    visit: (node, _edge, _from, _place, depth) => {
      rounds.set(depth, [...(rounds.get(depth) ?? []), node]);
    },
  });
  for (const [depth, nodes] of rounds) {
    const order = (node) => node.data("kind") + node.id();
    nodes.sort((a, b) => (order(a) < order(b) ? -1 : 1));
    nodes.forEach((node, i) => {
      const angle = (2 * Math.PI * i) / nodes.length - Math.PI / 2;
      const [x, y] = [RING * depth * Math.cos(angle), RING * depth * Math.sin(angle)];
      node.position({ x: x * aspect, y });
    });
  }
}

function beside(fresh) {
  fresh.forEach((node, i) => {
    const settled = node.neighborhood("node").not(fresh);
    if (settled.empty()) return;
    const { x, y } = settled[0].position();
    const angle = 2.4 * i;
    node.position({ x: x + 60 * Math.cos(angle), y: y + 60 * Math.sin(angle) });
  });
}

// Fruchterman and Reingold's model; steps grow shorter, so that it comes to rest.
function settle(points, springs) {
  const middle = points.find((p) => p.fixed) ?? { x: 0, y: 0 };
  const origin = { x: middle.x, y: middle.y };
  for (let round = 0; round < ROUNDS; round++) {
    const reach = 60 * (1 - round / ROUNDS) + 0.5;
    for (const p of points) {
      p.fx = GRAVITY * (origin.x - p.x);
      p.fy = GRAVITY * (origin.y - p.y);
    }
    for (let i = 0; i < points.length; i++) {
      for (let j = 0; j < i; j++) push(points[i], points[j], i - j);
    }
    for (const [from, to] of springs) pull(points[from], points[to]);
    for (const p of points) {
      if (p.fixed) continue;
      const force = Math.hypot(p.fx, p.fy) || 1;
      const step = Math.min(reach, force) / force;
      p.x += p.fx * step;
      p.y += p.fy * step;
    }
  }
}

function push(p, q, nudge) {
  const x = p.x - q.x || 0.01 * nudge;
  const y = p.y - q.y || 0.01;
  const force = LENGTH ** 2 / Math.max(25, x * x + y * y);
  p.fx += force * x;
  p.fy += force * y;
  q.fx -= force * x;
  q.fy -= force * y;
}

function pull(p, q) {
  const [x, y] = [p.x - q.x, p.y - q.y];
  const force = (0.35 * Math.hypot(x, y)) / LENGTH;
  p.fx -= force * x;
  p.fy -= force * y;
  q.fx += force * x;
  q.fy += force * y;
}

function separate(points) {
  for (let round = 0; round < APART; round++) {
    let touching = false;
    for (let i = 0; i < points.length; i++) {
      for (let j = 0; j < i; j++) touching = part(points[i], points[j]) || touching;
    }
    if (!touching) return;
  }
}

function part(p, q) {
  const x = (p.width + q.width) / 2 - Math.abs(p.x - q.x);
  const y = (p.height + q.height) / 2 - Math.abs(p.y - q.y);
  if (x <= 0 || y <= 0) return false;
  const share = q.fixed ? 1 : p.fixed ? 0 : 0.5;
  const axis = x < y ? "x" : "y";
  const gap = Math.min(x, y) * (p[axis] < q[axis] ? -1 : 1);
  p[axis] += gap * share;
  q[axis] -= gap * (1 - share);
  return true;
}
