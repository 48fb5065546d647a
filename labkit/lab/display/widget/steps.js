// The steps of a cell, a column each, with a slider. Text goes in as text only.

const SVG = "http://www.w3.org/2000/svg";
const SHOWN = 9; // columns
const WIDE = 72, HIGH = 34, LEFT = 58, TOP = 22;

function element(parent, kind, name, text = "") {
  const made = document.createElement(kind);
  made.className = `labkit-${name}`;
  made.textContent = text;
  parent.append(made);
  return made;
}

function mark(parent, kind, attributes, text = "") {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  parent.append(made);
  return made;
}

function columns(step, count) {
  const first = Math.max(0, Math.min(step - Math.floor(SHOWN / 2), count - SHOWN));
  return [...Array(Math.min(SHOWN, count)).keys()].map((k) => first + k);
}

function render({ model, el }) {
  el.classList.add("labkit-steps");
  const steps = model.get("steps"), colours = model.get("colours"), stuck = model.get("stuck_from");
  const ranks = steps[0].turns.length;
  const bar = element(el, "div", "bar");
  const slider = element(bar, "input", "slider");
  Object.assign(slider, { type: "range", min: 1, max: steps.length, step: 1 });
  slider.setAttribute("aria-label", "step of the cell");
  const where = element(bar, "span", "where");
  where.setAttribute("aria-live", "polite");
  const picture = mark(el, "svg", { role: "img" });
  const list = element(el, "table", "list");

  const x = (shown, step) => LEFT + WIDE * (shown.indexOf(step) + 0.5);
  const y = (rank) => TOP + HIGH * (rank + 0.5);

  function box(shown, step, rank, now) {
    const turn = steps[step].turns[rank], colour = colours[rank % colours.length];
    const group = mark(picture, "g", {});
    mark(group, "title", {}, `step ${step + 1}, rank ${rank}: ${turn.what}\n${turn.place}\n${turn.then}`);
    mark(group, "rect", {
      x: x(shown, step) - 15, y: y(rank) - 10, width: 30, height: 20, rx: 3, class: turn.then.split(" ")[0] || "end",
      style: `--labkit-rank: ${colour}`, "data-now": step === now, "data-rank": rank,
    });
  }

  function arrow(shown, message, step) {
    const from = Math.max(message.step, shown[0]);
    if (!shown.includes(step)) return;
    const group = mark(picture, "g", { class: "message" });
    mark(group, "title", {}, `message from rank ${message.source} to rank ${message.to}\n${message.place}`);
    const at = { x1: x(shown, from), y1: y(message.source), x2: x(shown, step), y2: y(message.to) };
    mark(group, "line", at);
    mark(group, "circle", { cx: at.x2, cy: at.y2, r: 4 });
  }

  function draw() {
    const now = model.get("step"), shown = columns(now, steps.length);
    slider.value = now + 1;
    const never = stuck === null || now < stuck ? "" : ` · ${model.get("verdict")}`;
    where.textContent = `step ${now + 1} of ${steps.length}${never}`;
    picture.replaceChildren();
    const width = LEFT + WIDE * shown.length + 8, height = TOP + HIGH * ranks + 6;
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("width", width);
    picture.setAttribute("aria-label", where.textContent);
    if (shown.includes(stuck)) {
      const left = x(shown, stuck) - WIDE / 2;
      mark(picture, "rect", { x: left, y: 0, width: width - left, height, class: "never" });
    }
    for (let rank = 0; rank < ranks; rank++) mark(picture, "text", { x: 2, y: y(rank) + 4 }, `rank ${rank}`);
    for (const step of shown) {
      mark(picture, "text", { x: x(shown, step), y: 14, "text-anchor": "middle" }, `${step + 1}`);
      for (let rank = 0; rank < ranks; rank++) box(shown, step, rank, now);
    }
    for (const step of shown.filter((step) => step <= now)) {
      for (const message of steps[step].received) arrow(shown, message, step);
    }
    list.replaceChildren();
    steps[now].turns.forEach((turn, rank) => row(`rank ${rank}`, turn.what, turn.place, turn.then, rank));
    for (const message of steps[now].under_way) {
      row("", `message from ${message.source} to ${message.to}`, message.place, "nobody has received it yet");
    }
  }

  function row(who, what, place, then, rank = null) {
    const line = element(list, "tr", "turn");
    const head = element(line, "th", "rank", who);
    head.scope = "row";
    if (rank !== null) head.style.setProperty("--labkit-rank", colours[rank % colours.length]);
    element(line, "td", "what", what);
    element(element(line, "td", "line"), "code", "place", place);
    element(line, "td", "then", then);
  }

  slider.addEventListener("input", () => {
    model.set("step", Number(slider.value) - 1);
    model.save_changes();
  });
  model.on("change:step", draw);
  draw();
  return () => model.off("change:step", draw);
}

export default { render };
