// Asks every two seconds what learners share, and draws it anew. All of it is put there as text.
"use strict";
const EVERY = 2000; // milliseconds

function element(kind, text, name = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  made.className = name;
  return made;
}

function row(told) {
  const made = document.createElement("tr");
  made.append(element("td", told.lesson), element("td", told.exercise, "exercise"));
  made.append(element("td", told.tried, "count"), element("td", told.solved, "count"));
  const list = document.createElement("ul");
  list.append(...told.mistakes.map(([name, count]) => element("li", `${count} × ${name}`)));
  const cell = document.createElement("td");
  cell.append(list);
  made.append(cell);
  return made;
}

function draw(told) {
  const share = told.learners === 1 ? "1 learner shares" : `${told.learners} learners share`;
  document.getElementById("learners").textContent = `${share} how far they are.`;
  const next = told.next;
  document.getElementById("next").textContent = next
    ? `To explain next: in ${next.exercise} (lesson ${next.lesson}), ${next.learners} are at “${next.mistake}”.`
    : "";
  document.getElementById("rows").replaceChildren(...told.rows.map(row));
}

async function look() {
  try {
    const mark = document.cookie.match(/(?:^|; )_xsrf=([^;]*)/); // a hub wants to see that the page asks
    const headers = mark ? { "X-XSRFToken": decodeURIComponent(mark[1]) } : {};
    const answer = await fetch(`tally${location.search}`, { headers });
    if (!answer.ok) throw new Error(answer.statusText);
    draw(await answer.json());
    document.body.classList.remove("late");
  } catch (error) {
    document.body.classList.add("late");
    document.getElementById("learners").textContent = `No answer since a moment: ${error.message}`;
  }
  setTimeout(look, EVERY);
}

look();
