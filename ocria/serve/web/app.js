// The page: files in, pages and their text as they are read.

import { OVER, Pages } from "./pages.js";
import { sanitised } from "./sanitise.js";
import * as server from "./server.js";

const $ = (id) => document.getElementById(id);
const KEPT = "ocria-jobs"; // ids of this tab's jobs, so that a reload finds them again
const POLL = 2000; // ms between looks at the jobs that are not shown
const IMAGE_WIDTH = 1200;

const jobs = new Map(); // id -> {id, name, told: what the server said of it, row, pages}
let shown = null; // the job in the main part
let page = null; // number of its page that is shown
let chosen = false; // whether the user chose the page; else the page in work is followed
let source = false; // Markdown instead of the rendered page
let unfollow = () => {};
const waiting = []; // files that the full queue did not take yet
let sending = false;

// ---- notices

function notice(message, cure) {
  $("notice").querySelector("p").textContent = cure ? `${message} ${cure}` : message;
  $("notice").hidden = false;
}
$("notice").querySelector("button").onclick = () => ($("notice").hidden = true);
const failed = (error) => notice(error.message, error.cure);

// ---- files in

function options() {
  return {
    format: "md",
    images: "embed",
    pages: $("pages").value.trim(),
    mode: $("mode").value,
    password: $("password").value,
    keep_headers_footers: $("running-headers").checked ? "true" : "",
  };
}

function add(files) {
  const asked = options();
  for (const file of files) waiting.push({ file, asked, row: rowOf(file.name || "pasted image") });
  send();
}

async function send() {
  if (sending) return;
  sending = true;
  while (waiting.length) {
    const { file, asked, row } = waiting[0];
    try {
      const told = await server.createJob(file, asked, (part) => row.update("sending", part));
      waiting.shift();
      keep({ id: told.id, name: told.name ?? file.name, told, row, pages: new Pages() });
      if (!shown || isOver(shown.told.state)) show(told.id);
    } catch (error) {
      if (error.status === 429) {
        row.update("waiting for room", 0);
        await new Promise((later) => setTimeout(later, 1000 * (error.retryAfter ?? 5)));
        continue;
      }
      waiting.shift();
      row.fail(error.message);
      failed(error);
    }
  }
  sending = false;
}

const drop = $("drop");
$("files").onchange = (event) => {
  add(event.target.files);
  event.target.value = "";
};
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  drop.classList.add("over");
});
document.addEventListener("dragleave", (event) => event.relatedTarget || drop.classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  add(event.dataTransfer.files);
});
document.addEventListener("paste", (event) => {
  if (event.clipboardData.files.length) add(event.clipboardData.files);
});
$("open").onsubmit = (event) => event.preventDefault();

// ---- the list of documents

const isOver = (state) => ["done", "failed", "cancelled"].includes(state);

/** A line of the list: name, progress, state, and a button that cancels or removes. */
function rowOf(name) {
  const element = document.createElement("li");
  const open = document.createElement("button");
  const title = document.createElement("span");
  const progress = document.createElement("progress");
  const state = document.createElement("small");
  const remove = document.createElement("button");
  title.textContent = name;
  progress.max = 1;
  progress.value = 0;
  open.type = remove.type = "button";
  open.className = "open";
  open.append(title, progress, state);
  remove.className = "remove";
  remove.textContent = "×";
  remove.setAttribute("aria-label", `Cancel or remove ${name}`);
  element.append(open, remove);
  $("jobs").append(element);
  const row = {
    element, open, remove,
    update(words, part) {
      state.textContent = words;
      progress.hidden = part === null;
      if (part !== null) progress.value = part;
    },
    fail(message) {
      element.classList.add("failed");
      row.update(message, null);
    },
  };
  remove.onclick = () => {
    const index = waiting.findIndex((one) => one.row === row);
    if (index > 0) waiting.splice(index, 1);
    if (index !== 0) element.remove();
  };
  row.update("waits to be sent", 0);
  return row;
}

function keep(job) {
  jobs.set(job.id, job);
  job.row.open.onclick = () => show(job.id);
  job.row.remove.onclick = () => forget(job);
  remember();
  tell(job);
}

const remember = () => sessionStorage.setItem(KEPT, JSON.stringify([...jobs.keys()]));

function forget(job) {
  jobs.delete(job.id);
  remember();
  job.row.element.remove();
  if (shown === job) {
    unfollow();
    shown = null;
    const next = [...jobs.keys()].at(-1);
    if (next) show(next);
    else {
      $("document").hidden = true;
      $("empty").hidden = false;
    }
  }
  server.removeJob(job.id).catch((error) => error.status === 404 || failed(error));
}

/** Shows the state of a job in its row, and in the bar above its pages. */
function tell(job) {
  const { state, status, ahead, pages_done: done = 0, seconds, error } = job.told;
  const count = job.told.pages; // how many will be read; null before that is known
  let words = state;
  if (state === "waiting") words = ahead ? `waits behind ${ahead}` : "waits";
  if (state === "running") words = count ? `page ${Math.min(done + 1, count)} of ${count}` : "opens";
  if (state === "done") words = `${count ?? done} page${(count ?? done) === 1 ? "" : "s"} in ${(seconds ?? 0).toFixed(1)} s`;
  if (state === "done" && status && status !== "ok") words += `, ${status}`;
  if (state === "failed") words = error?.message ?? "failed";
  job.row.element.classList.toggle("failed", state === "failed");
  job.row.update(words, isOver(state) ? null : count ? done / count : 0);
  if (job === shown) {
    $("state").textContent = words;
    $("download").disabled = state !== "done";
  }
}

// ---- one document

function show(id) {
  const job = jobs.get(id);
  if (shown === job) return;
  unfollow();
  if (shown) shown.row.element.classList.remove("shown");
  shown = job;
  page = null;
  chosen = false;
  job.pages = new Pages();
  job.row.element.classList.add("shown");
  $("empty").hidden = true;
  $("document").hidden = false;
  $("name").textContent = job.name;
  $("strip").replaceChildren();
  $("text").replaceChildren();
  $("image").removeAttribute("src");
  $("boxes").replaceChildren();
  tell(job);
  unfollow = server.follow(id, (event) => take(job, event));
}

function take(job, event) {
  if (event.type === "engine_tick") return meter(event);
  if (event.type === "job") Object.assign(job.told, { state: event.state, ahead: event.ahead });
  if (event.type === "document_started") job.told.state = "running";
  if (event.type === "document_done") Object.assign(job.told, { status: event.status, seconds: event.seconds });
  if (event.type === "note" && event.page == null) notice(event.message);
  const changed = job.pages.take(event);
  if (event.type === "page_done") {
    job.told.pages_done = job.pages.numbers.filter((number) => OVER.has(job.pages.page(number).status)).length;
  }
  if (["job", "document_started", "result", "error"].includes(event.type)) {
    server.job(job.id).then((told) => {
      job.told = told;
      tell(job);
      if (job === shown) strip();
    }, (error) => error.status === 404 ? gone(job) : failed(error));
  }
  if (event.type === "error" && job.told.state !== "cancelled") notice(event.error.message, event.error.cure);
  if (job !== shown) return;
  tell(job);
  if (changed) {
    if (page === null || (!chosen && changed.status === "running" && page !== changed.number)) turn(changed.number);
    else if (changed.number === page) draw(event.type);
    if (["page_started", "page_done"].includes(event.type)) strip();
  }
}

function gone(job) {
  job.told.state = "failed";
  job.row.fail("The server has forgotten it.");
}

function strip() {
  const list = $("strip");
  const numbers = shown.pages.numbers;
  while (list.children.length > numbers.length) list.lastChild.remove();
  numbers.forEach((number, index) => {
    let item = list.children[index];
    if (!item) {
      item = document.createElement("li");
      item.append(document.createElement("button"));
      item.firstChild.type = "button";
      list.append(item);
    }
    const { status, route } = shown.pages.page(number);
    const button = item.firstChild;
    button.textContent = number;
    button.dataset.status = status;
    button.title = `Page ${number}: ${status}${route ? `, ${route}` : ""}`;
    button.setAttribute("aria-label", button.title);
    button.setAttribute("aria-current", number === page ? "page" : "false");
    button.onclick = () => turn(number, true);
  });
}

function turn(number, byUser = false) {
  page = number;
  chosen ||= byUser;
  $("image").src = server.pageImage(shown.id, number, IMAGE_WIDTH);
  $("image").alt = `Page ${number} of ${shown.name}`;
  draw("page");
  strip();
}

document.addEventListener("keydown", (event) => {
  if (!shown || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
  const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -1, PageDown: 1 }[event.key];
  if (!step || (event.target.id === "text" && event.key.startsWith("Page"))) return;
  const next = shown.pages.numbers[shown.pages.numbers.indexOf(page) + step];
  if (next !== undefined) {
    turn(next, true);
    event.preventDefault();
  }
});

// ---- one page

let pending = false;

/** Draws the page that is shown; texts that grow are drawn once a frame. */
function draw(why) {
  if (why === "text_delta") {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      if (shown && page !== null) drawText();
    });
    return;
  }
  drawBoxes();
  drawText();
}

function drawText() {
  const one = shown.pages.page(page);
  const text = $("text");
  if (OVER.has(one.status)) {
    drawDone(one, text);
  } else {
    const pre = document.createElement("pre");
    pre.className = "growing";
    pre.textContent = Pages.text(one) || (one.status === "running" ? "reading …" : "waits");
    text.replaceChildren(pre);
  }
  for (const box of $("boxes").children) box.classList.toggle("read", one.lines.has(Number(box.dataset.unit)));
}

function drawDone(one, text) {
  const parts = [];
  if (one.status !== "ok" && one.status !== "blank") parts.push(paragraph("status", `This page is ${one.status}.`));
  for (const note of one.notes) parts.push(paragraph("status", note));
  if (one.status === "blank") parts.push(paragraph("quiet", "This page is blank."));
  if (source || one.html === null) {
    const pre = document.createElement("pre");
    pre.textContent = one.markdown ?? "";
    parts.push(pre);
  } else {
    parts.push(sanitised(one.html));
  }
  text.replaceChildren(...parts);
}

function paragraph(kind, words) {
  const made = document.createElement("p");
  made.className = kind;
  made.textContent = words;
  return made;
}

function drawBoxes() {
  const { boxes, size } = shown.pages.page(page);
  const drawing = $("boxes");
  drawing.replaceChildren();
  if (!size) return;
  drawing.setAttribute("viewBox", `0 0 ${size[0]} ${size[1]}`);
  boxes.forEach(([x0, y0, x1, y1], unit) => {
    const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, value] of Object.entries({ x: x0, y: y0, width: x1 - x0, height: y1 - y0 })) {
      box.setAttribute(name, value);
    }
    box.dataset.unit = unit;
    drawing.append(box);
  });
}

for (const [id, value] of [["tab-read", false], ["tab-source", true]]) {
  $(id).onclick = () => {
    source = value;
    $("tab-read").setAttribute("aria-selected", !value);
    $("tab-source").setAttribute("aria-selected", value);
    if (shown && page !== null) drawText();
  };
}

$("copy").onclick = async () => {
  if (page === null) return;
  try {
    await navigator.clipboard.writeText(Pages.text(shown.pages.page(page)));
    $("copy").textContent = "Copied";
    setTimeout(() => ($("copy").textContent = "Copy page"), 1500);
  } catch {
    notice("The browser does not let this page copy.", "Select the text, or download it.");
  }
};

$("download").onchange = (event) => {
  const format = event.target.value;
  event.target.value = "";
  if (!format) return;
  const link = document.createElement("a");
  link.href = server.resultUrl(shown.id, format);
  link.download = "";
  link.click();
};

// ---- the engine, and what goes on elsewhere

function meter(tick) {
  $("speed").textContent = Math.round(tick.decode_tokens_per_last_s ?? 0);
  $("accepted").textContent = tick.accept_length ? tick.accept_length.toFixed(1) : "–";
  $("running").textContent = tick.waiting ? `${tick.running} + ${tick.waiting}` : tick.running;
}

async function poll() {
  for (const job of jobs.values()) {
    if (job === shown || isOver(job.told.state)) continue;
    try {
      job.told = await server.job(job.id);
      tell(job);
    } catch (error) {
      if (error.status === 404) gone(job);
      else if (error.status !== 0) failed(error);
    }
  }
  setTimeout(poll, POLL);
}

async function start() {
  for (const id of JSON.parse(sessionStorage.getItem(KEPT) ?? "[]")) {
    try {
      const told = await server.job(id);
      keep({ id, name: told.name, told, row: rowOf(told.name), pages: new Pages() });
    } catch (error) {
      if (error.status !== 404) failed(error);
    }
  }
  const last = [...jobs.keys()].at(-1);
  if (last) show(last);
  poll();
  try {
    await server.health();
  } catch (error) {
    if (error.status === 503) notice("The model is being loaded.", "Files can be dropped already.");
    else failed(error);
  }
  try {
    $("model").textContent = await server.model();
    if ($("notice").textContent.includes("being loaded")) $("notice").hidden = true;
  } catch (error) {
    failed(error);
  }
}

start();
