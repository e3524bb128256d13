/* The form: JSON from the text or the file, sent to the API; what is wrong is told field by field. */
const form = document.getElementById("submit");
const problem = document.getElementById("problem");
form.hidden = false;

form.elements.file.addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (file) form.elements.solution.value = await file.text();
});

function tell(text) {
  Object.assign(problem, { textContent: text, hidden: !text });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    tell(`This is not JSON: ${error.message}`);
    return null;
  }
}

async function authorise(headers) {
  const token = form.elements.token?.value.trim();
  if (token) {
    headers.Authorization = `Bearer ${token}`;
    sessionStorage.setItem("token", token);
    return;
  }
  if (!form.elements.token) return;
  const me = await fetch("/auth/me", { headers: { Accept: "application/json" } });
  if (me.ok) headers["X-CSRF-Token"] = (await me.json()).csrf_token;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  tell("");
  const solution = parse(form.elements.solution.value);
  if (!solution) return;
  const headers = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() };
  await authorise(headers);
  const body = JSON.stringify({ solution, ranked: !form.elements.private.checked });
  const reply = await fetch("/api/v1/submissions", { method: "POST", headers, body });
  const told = await reply.json();
  if (reply.ok) location.assign(`/submissions/${told.id}`);
  else tell(told.errors?.map((each) => `${each.field}: ${each.message}`).join("\n") ?? told.detail);
});
