// The page: files in, their documents in a list, one of them in the main part.

import { takeFiles } from "./files.js";
import { described, isOver, rowOf } from "./list.js";
import { send, takeBack } from "./outbox.js";
import { Pages } from "./pages.js";
import * as reader from "./reader.js";
import * as server from "./server.js";

const $ = (id) => document.getElementById(id);
const KEPT = "ocria-jobs"; // ids of this tab's jobs, so that a reload finds them again
const POLL = 2000; // ms between looks at the jobs whose events do not come

// Each is {name, told, pages, row} and, as far as there is: `id` of its job, `file` and `asked` for sending it (again),
// `part` that is sent. `told` is what the server last said of the job, or a `state` from before there is one.
const docs = new Set();
let shown = null;
let unfollow = () => {};

// ---- what is said

function notice(message, cure) {
  $("notice").querySelector("p").textContent = cure ? `${message} ${cure}` : message;
  $("notice").hidden = false;
}
$("notice").querySelector("button").onclick = () => ($("notice").hidden = true);
const failed = (error) => error.status !== 0 && notice(error.message, error.cure); // 0: `offline` says it
server.watch((reached) => ($("offline").hidden = reached));

/** Tells of a change of a document: in its row, in the main part, and, for those who listen, of its end. */
function tell(doc, told) {
  const was = doc.told.state;
  doc.told = told;
  doc.row.update(doc);
  reader.changed(doc);
  if (isOver(told.state) && was !== told.state) $("said").textContent = `${doc.name}: ${described(doc).words}`;
  if (![...docs].some((one) => one.told.state === "running")) meter({});
}

function meter({ decode_tokens_per_last_s: speed, accept_length: accepted, running, waiting }) {
  $("speed").textContent = speed === undefined ? "–" : Math.round(speed);
  $("accepted").textContent = accepted ? accepted.toFixed(1) : "–";
  $("running").textContent = running === undefined ? "–" : waiting ? `${running} + ${waiting}` : running;
}

// ---- documents

function add(name, rest) {
  const doc = { name, told: { state: "unsent" }, pages: new Pages(), ...rest };
  doc.row = rowOf($("jobs"), name, () => show(doc), () => remove(doc));
  docs.add(doc);
  doc.row.update(doc);
  return doc;
}

function remove(doc) {
  docs.delete(doc);
  doc.row.remove();
  takeBack(doc);
  if (doc.id) server.removeJob(doc.id).catch((error) => error.status === 404 || failed(error));
  remember();
  if (doc === shown) show([...docs].at(-1) ?? null);
}

const remember = () => sessionStorage.setItem(KEPT, JSON.stringify([...docs].map((doc) => doc.id).filter(Boolean)));

function show(doc) {
  if (doc === shown) return;
  unfollow();
  shown?.row.mark(false);
  shown = doc;
  doc?.row.mark(true);
  unfollow = () => {};
  if (doc?.id && doc.told.state !== "gone") follow(doc);
  reader.show(doc);
}

// ---- to the server

function asked() {
  return {
    format: "md",
    images: "embed",
    pages: $("pages").value.trim(),
    mode: $("mode").value,
    password: $("password").value,
    keep_headers_footers: $("running-headers").checked ? "true" : "",
  };
}

const callbacks = {
  tell(doc, state, part) {
    doc.part = part;
    tell(doc, { state });
  },
  done(doc, told) {
    doc.id = told.id;
    remember();
    tell(doc, told);
    if (doc === shown) follow(doc);
  },
  refused: (doc, error) => tell(doc, { state: "failed", error }),
};

takeFiles($("files"), (files) => {
  const options = asked();
  const made = files.map(({ file, name }) => add(name, { file, asked: options }));
  if (made.length && (!shown || isOver(shown.told.state))) show(made[0]);
  for (const doc of made) send(doc, callbacks);
});
$("open").onsubmit = (event) => event.preventDefault();

$("again").onclick = () => {
  const doc = shown;
  if (doc.id) server.removeJob(doc.id).catch(() => {}); // what is left of it, if anything
  Object.assign(doc, { id: null, asked: asked(), pages: new Pages() });
  send(doc, callbacks);
  reader.show(doc);
};

// ---- from the server

function follow(doc) {
  doc.pages = new Pages(); // its events come from the first one on
  unfollow = server.follow(doc.id, (event) => take(doc, event), () => refused(doc));
}

function take(doc, event) {
  if (event.type === "engine_tick") return meter(event);
  doc.pages.take(event);
  if (event.type === "note" && event.page == null) notice(event.message);
  if (["job", "document_started", "result", "error"].includes(event.type)) ask(doc);
  else if (event.type === "page_done") tell(doc, { ...doc.told, pages_done: doc.pages.done });
  else reader.changed(doc);
}

/** The server does not tell a document's events: it may have forgotten it, or be about to end. */
async function refused(doc) {
  await ask(doc);
  if (doc === shown && doc.told.state !== "gone") setTimeout(() => doc === shown && follow(doc), POLL);
}

async function ask(doc) {
  const { id } = doc;
  try {
    const told = await server.job(id);
    // Answers may overtake each other: what is over stays so.
    if (doc.id === id && (isOver(told.state) || !isOver(doc.told.state))) tell(doc, told);
  } catch (error) {
    if (error.status !== 404) failed(error);
    else if (doc.id === id) tell(doc, { state: "gone" });
  }
}

async function poll() {
  for (const doc of docs) {
    if (doc.id && (doc !== shown || document.hidden) && !isOver(doc.told.state)) await ask(doc);
  }
  if (!$("offline").hidden) await server.live().catch(() => {}); // nobody else may ask
  setTimeout(poll, POLL);
}

// ---- out

$("copy").onclick = async () => {
  try {
    await navigator.clipboard.writeText(reader.pageText());
    $("said").textContent = $("copy").textContent = "Copied";
    setTimeout(() => ($("copy").textContent = "Copy page"), 1500);
  } catch {
    notice("The browser does not let this page copy.", "Select the text, or download it.");
  }
};

$("download").onclick = async () => {
  const doc = shown;
  $("download").disabled = true;
  try {
    const { name, content } = await server.result(doc.id, $("format").value);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (error) {
    if (error.status === 404) tell(doc, { state: "gone" });
    else failed(error);
  }
  reader.changed(doc);
};

// ---- begin

async function start() {
  for (const id of JSON.parse(sessionStorage.getItem(KEPT) ?? "[]")) {
    try {
      const told = await server.job(id);
      tell(add(told.name, { id }), told);
    } catch (error) {
      if (error.status !== 404) failed(error);
    }
  }
  if (!shown) show([...docs].at(-1) ?? null);
  poll();
  try {
    $("model").textContent = await server.model();
  } catch (error) {
    $("model").textContent = "";
    failed(error);
  }
}

start();
