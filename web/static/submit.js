/* The form: JSON from the text or the file, sent to the API; what is wrong is told field by field. */
const form = document.getElementById("submit");
const problem = document.getElementById("problem");
form.hidden = false;

form.elements.file.addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (file) form.elements.solution.value = await file.text();
});

const LANGUAGES = { cu: "cuda", cpp: "cpp", cc: "cpp", py: "python" };
const MADE_WITH = { cuda: ["apache-tvm-ffi"], cpp: ["apache-tvm-ffi"], triton: ["torch", "triton"], python: ["torch"] };
const RUNS_ON = { cuda: ["cuda"], cpp: ["cpu"], triton: ["cuda"], python: ["cpu", "cuda"] };

/* A solution out of source files, to be looked at before it is sent: `run` of main.*, else of the first file. */
async function packed(files, definition) {
  const sources = await Promise.all([...files].map(async (file) => ({ path: file.name, content: await file.text() })));
  const known = sources.filter(({ path }) => path.split(".").pop() in LANGUAGES);
  const entry = known.find(({ path }) => path.startsWith("main.")) ?? known[0];
  if (!entry) return null;
  const plain = LANGUAGES[entry.path.split(".").pop()];
  const language = plain === "python" && /^\s*import triton/m.test(entry.content) ? "triton" : plain;
  const spec = {
    language,
    target_hardware: RUNS_ON[language],
    entry_point: `${entry.path}::run`,
    dependencies: MADE_WITH[language],
  };
  return { name: `${definition}_${crypto.randomUUID().slice(0, 8)}`, definition, author: "me", spec, sources };
}

document.getElementById("pack").addEventListener("click", async () => {
  const { sources, definition } = form.elements;
  const solution = await packed(sources.files, definition.value.trim());
  tell(solution ? "" : "Choose source files that end in .py, .cu, .cpp or .cc.");
  if (solution) form.elements.solution.value = JSON.stringify(solution, null, 2);
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
