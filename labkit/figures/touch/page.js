(() => {
const ours = () => document.querySelectorAll('[id="IDENT"]:not([data-touched])');

function touch(page) {
  page.dataset.touched = 'yes';
  const [time, axis, tools] = ['svg.time', '.axis', '.tools'].map(what => page.querySelector(what));
  const { length, unit } = axis.dataset;
  const WIDE = time.viewBox.baseVal.width;
  const said = tools.querySelector('output');
  let from = 0, wide = WIDE; // the part of the time axis that is shown

  function round(least) { // up to 1, 2 or 5 times a power of ten
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map(f => f * power).find(step => step >= least);
  }

  function draw() {
    wide = Math.min(wide, WIDE);
    from = Math.max(0, Math.min(from, WIDE - wide));
    time.setAttribute('viewBox', `${from} 0 ${wide} ${time.viewBox.baseVal.height}`);
    const pixels = time.getBoundingClientRect().width || 700;
    const shown = length * wide / WIDE, step = round(shown / Math.max(2, Math.floor(pixels / 110)));
    const first = length * from / WIDE;
    axis.replaceChildren();
    for (let at = Math.ceil(first / step) * step; at <= first + shown * 1.0001; at += step) {
      const x = pixels * (at - first) / shown;
      const mark = (kind, made) => {
        const it = document.createElementNS('http://www.w3.org/2000/svg', kind);
        for (const name in made) it.setAttribute(name, made[name]);
        return axis.appendChild(it);
      };
      mark('line', { x1: x, x2: x, y1: 0, y2: 5 });
      mark('text', { x, y: 18 }).textContent = `${+at.toPrecision(6)} ${unit}`;
    }
  }

  function zoom(factor, middle = 0.5) {
    const at = from + wide * middle;
    wide *= factor;
    from = at - wide * middle;
    draw();
  }

  const place = event => {
    const box = time.getBoundingClientRect();
    return (event.clientX - box.left) / box.width;
  };
  const move = part => { from += wide * part; draw(); };
  const does = {
    in: () => zoom(0.5), out: () => zoom(2), all: () => zoom(WIDE / wide),
    perfetto: button => perfetto(button.dataset.file),
  };
  tools.hidden = false;
  tools.onclick = event => does[event.target.dataset.do]?.(event.target);
  time.ondblclick = event => zoom(0.5, place(event));
  time.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls as ever
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, place(event));
  }, { passive: false });
  time.onkeydown = event => {
    const key = { '+': () => zoom(0.5), '-': () => zoom(2), 0: does.all, ArrowLeft: () => move(-0.2),
      ArrowRight: () => move(0.2) }[event.key];
    if (!key) return;
    key();
    event.preventDefault();
    event.stopPropagation();
  };
  let held;
  time.onpointerdown = event => { held = event.clientX; };
  time.onpointermove = event => {
    if (held === undefined || !(event.buttons & 1)) return;
    move((held - event.clientX) / time.getBoundingClientRect().width);
    held = event.clientX;
  };
  time.onpointerup = () => { held = undefined; };

  // What a browser shows of a title comes late, and not at the mouse.
  const tip = document.createElement('div');
  tip.className = 'labkit-tip';
  for (const title of time.querySelectorAll('title')) {
    const words = title.textContent, what = title.parentNode;
    what.setAttribute('aria-label', words);
    title.remove();
    what.addEventListener('mousemove', event => {
      tip.textContent = words;
      document.body.append(tip);
      tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${event.clientY + 14}px`;
    });
    what.addEventListener('mouseleave', () => tip.remove());
  }

  async function perfetto(packed) {
    const bytes = Uint8Array.from(atob(packed), letter => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    const buffer = await new Response(stream).arrayBuffer();
    const file = () => {
      const link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob([buffer], { type: 'application/json' }));
      link.download = 'trace.json';
      link.click();
    };
    const there = window.open('https://ui.perfetto.dev');
    const until = Date.now() + 8000;
    said.textContent = 'opening ui.perfetto.dev ...';
    const ask = setInterval(() => {
      if (there && Date.now() < until) return there.postMessage('PING', 'https://ui.perfetto.dev');
      done();
      file();
      said.textContent = 'ui.perfetto.dev does not answer: trace.json is in your downloads, open it there later';
    }, 200);
    const done = () => { clearInterval(ask); window.removeEventListener('message', answered); };
    const answered = event => {
      if (event.origin !== 'https://ui.perfetto.dev' || event.data !== 'PONG') return;
      done();
      there.postMessage({ perfetto: { buffer, title: 'labkit' } }, 'https://ui.perfetto.dev');
      said.textContent = '';
    };
    window.addEventListener('message', answered);
  }

  new ResizeObserver(draw).observe(page);
  draw();
}

ours().forEach(touch);
requestAnimationFrame(() => ours().forEach(touch)); // where the page was not yet in the document
})();
