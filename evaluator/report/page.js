"use strict";
// Adds to a page that is complete without it: sorting by a column, and reading the fast_p curves at any p.
for (const head of document.querySelectorAll(".sortable th[data-sort]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => sortBy(head));
}

function sortBy(head) {
  const column = head.cellIndex, body = head.closest("table").tBodies[0], numeric = head.dataset.sort === "num";
  const down = head.ariaSort ? head.ariaSort === "ascending" : numeric;
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.ariaSort = down ? "descending" : "ascending";
  const key = (row) => numeric ? Number(row.cells[column].dataset.v) : row.cells[column].textContent.trim();
  const order = (a, b) => numeric ? key(a) - key(b) : key(a).localeCompare(key(b));
  body.append(...[...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)));
}

for (const figure of document.querySelectorAll(".fastp")) {
  const low = Math.log(figure.dataset.low), high = Math.log(figure.dataset.high);
  const chart = figure.querySelector(".curves"), cross = figure.querySelector(".cross");
  const lines = [...figure.querySelectorAll("[data-ratios]")].map((line) => ({
    ratios: line.dataset.ratios.split(" ").filter(Boolean).map(Number), out: line.querySelector("output"),
  }));
  const read = (share) => {
    const p = Math.exp(low + share * (high - low));
    for (const { ratios, out } of lines)
      out.value = `${Math.round(100 * ratios.filter((ratio) => ratio > p).length / Math.max(1, ratios.length))} %`;
    figure.querySelector(".p").value = `${p.toFixed(2)}×`;
    cross.setAttribute("x1", `${100 * share}%`);
    cross.setAttribute("x2", `${100 * share}%`);
    chart.classList.add("live");
  };
  const scrub = document.createElement("input");
  Object.assign(scrub, { type: "range", className: "scrub", min: 0, max: 1, step: "any", ariaLabel: "Read the curves at p" });
  scrub.value = -low / (high - low);
  scrub.addEventListener("input", () => read(Number(scrub.value)));
  figure.querySelector(".canvas").after(scrub);
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    scrub.value = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    read(Number(scrub.value));
  });
}
