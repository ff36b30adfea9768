// The document in the main part: its state, its pages, and one of them beside its image.

import { described, isOver } from "./list.js";
import { OVER, Pages } from "./pages.js";
import { sanitised } from "./sanitise.js";
import * as server from "./server.js";
import * as sheet from "./sheet.js";

const $ = (id) => document.getElementById(id);
const IMAGE_WIDTH = 1200;
const LARGE_WIDTH = 2000;

let doc = null;
let number = null; // of the page that is shown
let chosen = false; // whether the user chose it; else the page in work is followed
let source = false; // Markdown instead of the rendered page
let large = false;
let drawn = ""; // what the text shows, so that it is not made again
let pending = false;

/** Shows a document, or with null none. */
export function show(next) {
  doc = next;
  number = null;
  chosen = doc !== null && isOver(doc.told.state); // nothing to follow: its first page
  drawn = "";
  sheet.clear();
  $("text").replaceChildren();
  $("strip").replaceChildren();
  $("empty").hidden = doc !== null;
  $("document").hidden = doc === null;
  if (doc) {
    $("name").textContent = $("name").title = doc.name;
    draw();
  }
}

/** Draws what changed of a document, once a frame, if it is shown. */
export function changed(one) {
  if (one !== doc || pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    if (doc) draw();
  });
}

function draw() {
  drawState();
  if (doc.pages.numbers.length) {
    follow();
    drawStrip();
    drawPage();
  }
  $("page").hidden = number === null;
}

function drawState() {
  const { words, part } = described(doc);
  const { state, error } = doc.told;
  $("state").textContent = state === "failed" ? "failed" : words;
  $("progress").hidden = part === null;
  $("progress").value = part ?? 0;
  $("download").disabled = state !== "done";
  $("problem").hidden = !["failed", "gone"].includes(state);
  if ($("problem").hidden) return;
  $("problem").querySelector("h3").textContent = state === "gone" ? "This document is gone" : "This document was not read";
  $("problem-what").textContent = state === "gone" ? "The server keeps documents for a while, and not when it ends." : error.message;
  $("problem-cure").textContent = state === "failed" ? cureOf(error) : "";
  $("again").hidden = !doc.file;
}

/** What helps, in a sentence; the server's own cures name options of the command. */
function cureOf({ type, cure }) {
  if (type === "encrypted_error") return "Type its password under “Options for the next files”, then read it again.";
  return cure ? `${cure}.`.replace(/([.?!])\.$/, "$1") : "";
}

// ---- which page

/** Goes on to the page in work, as soon as the image of the last one is there. */
function follow() {
  const { numbers, running, latest } = doc.pages;
  if (number === null) number = numbers[0];
  else if (!chosen && OVER.has(doc.pages.page(number).status) && sheet.isSettled()) number = running ?? latest?.number ?? number;
}
$("image").addEventListener("load", () => doc && changed(doc));

function turn(to) {
  number = to;
  chosen = true;
  draw();
  $("text").scrollTop = $("frame").scrollTop = 0;
}

const neighbour = (step) => doc?.pages.numbers[doc.pages.numbers.indexOf(number) + step];
for (const [id, step, key] of [["previous", -1, "ArrowLeft"], ["next", 1, "ArrowRight"]]) {
  const go = () => neighbour(step) !== undefined && turn(neighbour(step));
  $(id).onclick = go;
  document.addEventListener("keydown", (event) => {
    const elsewhere = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
    // What is wider than its place is scrolled with these keys.
    if (event.key === key && !elsewhere && !event.target.closest("input, select, #frame, table, pre")) go();
  });
}

function drawStrip() {
  const list = $("strip");
  const { numbers } = doc.pages;
  numbers.forEach((one, index) => {
    let button = list.children[index]?.firstChild;
    if (!button) {
      button = document.createElement("button");
      button.type = "button";
      const item = document.createElement("li");
      item.append(button);
      list.append(item);
    }
    const { status, route } = doc.pages.page(one);
    const title = `Page ${one}: ${status}${route === "text" ? ", from the text layer" : ""}`;
    const current = one === number ? "page" : "false";
    if (button.title === title && button.getAttribute("aria-current") === current) return;
    button.textContent = one;
    button.title = title;
    button.dataset.status = status;
    button.setAttribute("aria-label", title);
    button.setAttribute("aria-current", current);
    if (one === number) list.scrollTop = button.offsetTop - list.offsetTop - list.clientHeight / 2;
  });
}
$("strip").onclick = (event) => {
  const button = event.target.closest("button");
  if (button) turn(Number(button.textContent));
};

// ---- its image and text

function drawPage() {
  const page = doc.pages.page(number);
  const { numbers } = doc.pages;
  sheet.showImage(server.pageImage(doc.id, number, large ? LARGE_WIDTH : IMAGE_WIDTH), `Page ${number} of ${doc.name}`);
  const over = OVER.has(page.status);
  sheet.drawLines(page, over);
  const count = Math.max(numbers.length, doc.told.pages ?? 0); // those that are not begun have no number here yet
  $("place").textContent = `Page ${number}` + (count > 1 ? ` of ${Math.max(count, numbers.at(-1))}` : "");
  $("previous").disabled = neighbour(-1) === undefined;
  $("next").disabled = neighbour(1) === undefined;
  const text = Pages.text(page);
  const key = [number, page.status, over && source, page.notes.length, over ? 0 : text].join("\n");
  if (key === drawn) return;
  drawn = key;
  $("text").replaceChildren(...(over ? finished(page) : [element("pre", "growing", text || inWork(page))]));
}

const inWork = ({ status }) => (isOver(doc.told.state) ? "was not read" : status === "running" ? "reading …" : "waits");

function finished(page) {
  const parts = [];
  if (page.status !== "ok" && page.status !== "blank") parts.push(element("p", "status", `This page: ${page.status}.`));
  for (const note of page.notes) parts.push(element("p", "status", note));
  if (page.status === "blank") parts.push(element("p", "quiet", "This page is blank."));
  if (source || page.html === null) parts.push(element("pre", "", page.markdown ?? ""));
  else parts.push(sanitised(page.html));
  return parts;
}

function element(tag, kind, words) {
  const made = document.createElement(tag);
  made.className = kind;
  made.textContent = words;
  return made;
}

for (const [id, value] of [["rendered", false], ["markdown", true]]) {
  $(id).onclick = () => {
    source = value;
    $("rendered").setAttribute("aria-pressed", !value);
    $("markdown").setAttribute("aria-pressed", value);
    if (doc) draw();
  };
}

$("zoom").onclick = () => {
  large = !large;
  $("zoom").setAttribute("aria-pressed", large);
  $("sheet").classList.toggle("large", large);
  draw();
};

/** The text of the page that is shown. */
export const pageText = () => (number === null ? "" : Pages.text(doc.pages.page(number)));

// ---- from text to image and back

const boxOf = (block) => block.dataset.box.split(" ").map(Number);

$("text").addEventListener("pointerover", (event) => {
  const block = event.target.closest("[data-box]");
  sheet.mark(block && boxOf(block));
});
$("text").addEventListener("pointerleave", () => sheet.mark(null));

$("sheet").onclick = (event) => {
  const [x, y] = sheet.pointOf(event);
  const here = [...$("text").querySelectorAll("[data-box]")].filter((block) => {
    const [x0, y0, x1, y1] = boxOf(block);
    return x0 <= x && x <= x1 && y0 <= y && y <= y1;
  });
  const block = here.at(-1); // of two that hold each other the inner one comes last
  for (const one of $("text").querySelectorAll(".found")) one.classList.remove("found");
  sheet.mark(block ? boxOf(block) : null);
  block?.classList.add("found");
  block?.scrollIntoView({ block: "nearest" });
};
