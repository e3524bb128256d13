/* How many definitions are won at p, by the rows of the table that says the same. */
import { load, show } from "/static/charts.js";
import { fastp, pin } from "/static/fastp.js";

async function wins(element) {
  const { device, edition, op, by, serves } = element.dataset;
  const query = new URLSearchParams({ device_model: device, edition, by, limit: "500" });
  if (op) query.set("op_type", op);
  if (serves) query.set("serves", serves);
  const named = new Set([...document.querySelectorAll("[data-name]")].map((row) => row.dataset.name));
  const reply = await load(`/api/v1/leaderboard?${query}`);
  const rows = (reply.boards[0]?.rows ?? []).filter((row) => named.has(row.name) && row.attempted);
  if (!rows.length) return;
  fastp(
    element,
    `Definitions on which ${rows.length} of the board are surely more than p times as fast as the baseline`,
    rows.map((row) => ({ name: row.name, reached: row.wins })),
    { minInterval: 1, name: "definitions", nameLocation: "middle", nameGap: 32 },
  );
  pin(document.querySelector(".pin"), 1.2);
}

show("wins", wins);
