// A tile per rank. Text goes in as text only, so nothing that a rank prints is taken for markup.

const BLANK = "\u00a0"; // keeps an empty line's height, so that tiles do not jump

function element(parent, kind, name, text = "") {
  const made = document.createElement(kind);
  made.className = `labkit-${name}`;
  made.textContent = text;
  parent.append(made);
  return made;
}

function inWords(bytes) {
  if (!bytes) return "";
  return bytes < 1e9 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}

function tile(parent, t, colours) {
  const box = element(parent, "div", "tile");
  box.setAttribute("role", "listitem");
  box.dataset.rank = t.rank;
  box.dataset.state = t.state;
  box.style.setProperty("--labkit-rank", colours[t.rank % colours.length]);
  const head = element(box, "div", "head");
  element(head, "span", "rank", `rank ${t.rank}`);
  element(head, "span", "state", t.state);
  element(box, "div", "what", t.what || BLANK);
  element(box, "code", "place", t.place || BLANK).title = t.place;
  element(box, "code", "said", t.said || BLANK).title = t.said;
  const foot = element(box, "div", "foot");
  element(foot, "span", "host", t.host).title = t.host;
  element(foot, "span", "memory", inWords(t.memory));
}

function render({ model, el }) {
  el.classList.add("labkit-view");
  const headline = element(el, "div", "headline");
  const list = element(el, "div", "tiles");
  list.setAttribute("role", "list");
  list.setAttribute("aria-label", "what each rank does");
  const draw = () => {
    headline.textContent = model.get("headline");
    list.replaceChildren();
    for (const t of model.get("tiles")) tile(list, t, model.get("colours"));
  };
  model.on("change:tiles change:headline", draw);
  draw();
  return () => model.off("change:tiles change:headline", draw);
}

export default { render };
