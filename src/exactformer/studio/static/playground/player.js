// Play, step and go back through stations; the words of each are read out.

import { element } from "./dom.js";

const PAUSE = 1300;

export class Player {
  constructor(place, arrived) {
    Object.assign(this, { place, arrived, stations: [], step: 0, timer: 0 });
    const button = (words, action, extra = "") =>
      element(
        "button",
        { type: "button", class: `button button--small ${extra}`, onclick: action },
        words,
      );
    this.back = button("Back", () => this.by(-1));
    this.playing = button("Play", () => this.toggle(), "button--primary");
    this.next = button("Step", () => this.by(1));
    this.slider = element("input", {
      type: "range",
      min: 0,
      step: 1,
      "aria-label": "Step",
      oninput: () => this.jump(),
    });
    this.title = element("strong", {});
    this.words = element("p", { class: "pg-words", "aria-live": "polite" });
    place.append(
      element(
        "div",
        { class: "pg-player" },
        element("div", { class: "cluster" }, this.back, this.playing, this.next),
        this.slider,
        this.title,
      ),
      this.words,
    );
  }

  show(stations, step) {
    this.stations = stations;
    this.place.hidden = false;
    this.slider.max = stations.length - 1;
    this.go(Math.min(step, stations.length - 1), false);
  }

  // isMove: somebody went there, and it is not the same place shown anew
  go(step, isMove = true) {
    this.step = step;
    const station = this.stations[step];
    this.slider.value = step;
    this.slider.setAttribute("aria-valuetext", station.title);
    this.title.textContent = `${step + 1} / ${this.stations.length}  ${station.title}`;
    this.words.textContent = station.words;
    this.back.disabled = step === 0;
    this.next.disabled = step === this.stations.length - 1;
    this.arrived(step, isMove);
  }

  by(steps) {
    this.pause();
    this.go(Math.max(0, Math.min(this.stations.length - 1, this.step + steps)));
  }

  jump() {
    this.pause();
    this.go(Number(this.slider.value));
  }

  toggle() {
    if (this.timer) return this.pause();
    if (this.step === this.stations.length - 1) this.go(0);
    this.playing.textContent = "Pause";
    this.timer = setInterval(() => {
      if (this.step === this.stations.length - 1) this.pause();
      else this.go(this.step + 1);
    }, PAUSE);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    this.playing.textContent = "Play";
  }
}
