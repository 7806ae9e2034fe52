// The drawing itself: what is shown, which node is chosen, and how to go from one to the next.

import { label } from "./labels.js";
import { arrange } from "./layout.js";
import { looks, onSchemeChange } from "./looks.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");
const DIRECTIONS = {
  ArrowRight: { x: 1, y: 0 },
  ArrowLeft: { x: -1, y: 0 },
  ArrowDown: { x: 0, y: 1 },
  ArrowUp: { x: 0, y: -1 },
};
const PADDING = 36;
const LARGEST = 1.15; // so that three nodes are not drawn like posters

export class Drawing {
  constructor(cytoscape, canvas, { embedded, onChoose, onOpen }) {
    this.canvas = canvas;
    this.cy = cytoscape({
      container: canvas,
      style: looks(canvas),
      minZoom: 0.15,
      maxZoom: 2.5,
      boxSelectionEnabled: false,
      autounselectify: true,
      userZoomingEnabled: !embedded,
      userPanningEnabled: !embedded || matchMedia("(pointer: fine)").matches,
      autoungrabify: embedded,
    });
    this.onChoose = onChoose;
    this.cy.on("tap", "node", ({ target }) => this.choose(target.id()));
    this.cy.on("dbltap", "node", ({ target }) => onOpen(target.id()));
    this.cy.on("mouseover mouseout", "node", ({ type, target }) => {
      target.toggleClass("pointed", type === "mouseover");
      canvas.classList.toggle("map-canvas--over", type === "mouseover");
    });
    this.cy.on("zoom", () => {
      this.labelling ??= requestAnimationFrame(() => this.label());
    });
    onSchemeChange(() => this.cy.style(looks(canvas)));
    new ResizeObserver(() => this.resized()).observe(canvas);
  }

  resized() {
    this.cy.resize();
    if (!this.canvas.clientWidth) return;
    if (!this.waiting) return this.all();
    this.show(this.waiting);
    this.choose(this.chosen);
  }

  // A canvas that is hidden has no size to arrange nodes for: wait until it has.
  show(shown) {
    this.waiting = this.canvas.clientWidth ? null : shown;
    if (this.waiting) return;
    const { cy } = this;
    cy.resize();
    const before = new Map(cy.nodes().map((node) => [node.id(), { ...node.position() }]));
    const kept = new Set(shown.nodes.map(({ data }) => data.id));
    const known = [...before.keys()].some((id) => kept.has(id)) ? before : new Map();
    const fresh = [...shown.nodes, ...shown.edges].map((element) => ({
      ...element,
      position: known.get(element.data.id),
    }));
    cy.batch(() => {
      cy.elements().remove();
      cy.add(fresh);
    });
    arrange(cy, known);
    this.settle(known);
  }

  settle(known) {
    const { cy } = this;
    if (still.matches || !known.size) return this.all();
    const after = new Map(cy.nodes().map((node) => [node.id(), { ...node.position() }]));
    cy.nodes().forEach((node) => known.has(node.id()) && node.position(known.get(node.id())));
    const positions = (node) => after.get(node.id());
    const moving = { name: "preset", positions, animate: true, animationDuration: 280, fit: false };
    cy.layout({ ...moving, stop: () => this.all() }).run();
  }

  all() {
    this.cy.fit(undefined, PADDING);
    if (this.cy.zoom() > LARGEST) {
      this.cy.zoom(LARGEST);
      this.cy.center();
    }
  }

  label() {
    this.labelling = null;
    label(this.cy);
  }

  zoom(factor) {
    const middle = { x: this.cy.width() / 2, y: this.cy.height() / 2 };
    this.cy.zoom({ level: this.cy.zoom() * factor, renderedPosition: middle });
  }

  choose(id) {
    const { cy } = this;
    const node = cy.getElementById(id);
    if (node.empty() && !this.waiting) return;
    this.chosen = id;
    this.onChoose(id);
    if (this.waiting) return;
    cy.batch(() => {
      cy.elements().removeClass("chosen near faded");
      node.addClass("chosen");
      if (node.hasClass("centre")) return;
      const near = node.closedNeighborhood();
      near.edges().addClass("near");
      cy.elements().not(near).addClass("faded");
    });
    this.label();
    this.reveal(node);
  }

  reveal(node) {
    const { x, y } = node.renderedPosition();
    const inside = x > 0 && y > 0 && x < this.cy.width() && y < this.cy.height();
    if (!inside) this.cy.center(node);
  }

  // From the chosen node to the neighbour that lies best in a direction; where there is none, to
  // any node that does, so that every node can be reached.
  go(key) {
    const from = this.cy.getElementById(this.chosen);
    if (from.empty()) return;
    const beside = best(from, from.neighborhood("node"), DIRECTIONS[key], 0.3);
    const other = beside ?? best(from, this.cy.nodes().not(from), DIRECTIONS[key], 0.6);
    if (other) this.choose(other.id());
  }
}

export const ARROWS = new Set(Object.keys(DIRECTIONS));

function best(from, candidates, direction, least) {
  const origin = from.position();
  let found;
  let lowest = Infinity;
  candidates.forEach((node) => {
    const x = node.position("x") - origin.x;
    const y = node.position("y") - origin.y;
    const distance = Math.hypot(x, y) || 1;
    const cosine = (x * direction.x + y * direction.y) / distance;
    const cost = distance * (1 + 3 * (1 - cosine));
    if (cosine >= least && cost < lowest) [found, lowest] = [node, cost];
  });
  return found;
}
