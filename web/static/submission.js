/* A submission while it is judged: its stream of events, put where the page shows them. */
const box = document.getElementById("submission");
const state = document.getElementById("state");
const place = document.getElementById("position");
const count = document.getElementById("count");
const verdicts = document.getElementById("verdicts");
const problem = document.getElementById("problem");
const note = document.getElementById("notes");
const button = document.getElementById("cancel");
const url = `/api/v1/submissions/${box.dataset.id}`;

function cell(tag, text, small, kind) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  if (small) made.append(Object.assign(document.createElement("small"), { textContent: small }));
  return made;
}

function digits(value) {
  return value === undefined || value === null ? "–" : Number(value).toPrecision(3);
}

function verdict(id, data) {
  if (verdicts.querySelector(`[data-event="${id}"]`)) return;
  const row = document.createElement("tr");
  row.dataset.event = id;
  const axes = data.hidden ? "hidden" : Object.entries(data.axes).map(([name, size]) => `${name}=${size}`).join(" ");
  const head = cell("th", axes, "", "name");
  head.scope = "row";
  const ratio = data.ratio === undefined ? "–" : `${digits(data.ratio)}×`;
  const time = data.median_ms === undefined ? "–" : `${digits(data.median_ms)} ms`;
  row.append(head, cell("td", data.verdict ?? data.status, data.reason), cell("td", ratio, "", "num"), cell("td", time, "", "num"));
  verdicts.append(row);
  if (!data.hidden) count.textContent = String([...verdicts.rows].length);
}

function told(event) {
  const data = JSON.parse(event.data);
  if (event.type === "verdict") verdict(event.lastEventId, data);
  if (event.type === "note") note.append(cell("p", data.text, "", "note"));
  if (event.type === "position") place.textContent = data.position ?? "–";
  if (event.type !== "state") return;
  const passed = data.outcome === "not_passed" ? ", not passed" : data.outcome ? ", passed" : "";
  state.textContent = data.state + passed;
  if (data.reason) Object.assign(problem, { textContent: data.reason, hidden: false });
  if (["done", "cancelled", "failed"].includes(data.state)) {
    stream.close();
    button?.remove();
  }
}

let stream;
if (box.dataset.ended === "no") {
  stream = new EventSource(`${url}/events`);
  for (const kind of ["state", "verdict", "note", "position"]) stream.addEventListener(kind, told);
}

async function cancel() {
  const me = await fetch("/auth/me", { headers: { Accept: "application/json" } });
  const headers = {};
  if (me.ok) headers["X-CSRF-Token"] = (await me.json()).csrf_token;
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const reply = await fetch(url, { method: "DELETE", headers });
  if (!reply.ok) Object.assign(problem, { textContent: (await reply.json()).detail, hidden: false });
}

if (button) {
  button.hidden = false;
  button.addEventListener("click", cancel);
}
