// The image of a page, the lines that were found on it, and the block that is pointed at.

const SVG = "http://www.w3.org/2000/svg";
const image = document.getElementById("image");
const boxes = document.getElementById("boxes");
const sheet = document.getElementById("sheet");

const state = (word) => (sheet.dataset.image = word);
image.onerror = () => state("missing");
image.onload = () => state("shown");

/** Shows an image, unless it is shown already and whole. */
export function showImage(url, alt) {
  if (image.getAttribute("src") === url && sheet.dataset.image !== "missing") return;
  state("loading");
  boxes.replaceChildren();
  image.src = url;
  image.alt = alt;
}

export function clear() {
  image.removeAttribute("src");
  state("loading");
  boxes.replaceChildren();
}

/** Whether what is to be shown is shown; the next page can come. */
export const isSettled = () => image.complete;

/** Draws the lines of a page, those apart of which text has come; fainter when it is over. */
export function drawLines({ boxes: lines, size, lines: texts }, over) {
  if (!size) return;
  boxes.classList.toggle("over", over);
  boxes.setAttribute("viewBox", `0 0 ${size[0]} ${size[1]}`);
  const drawn = boxes.querySelectorAll("[data-unit]");
  if (drawn.length !== lines.length) {
    for (const one of drawn) one.remove();
    lines.forEach((line, unit) => (rectangle(line).dataset.unit = unit));
  }
  for (const one of boxes.querySelectorAll("[data-unit]")) one.classList.toggle("read", texts.has(Number(one.dataset.unit)));
}

/** Marks a block, [x0, y0, x1, y1] in points, or nothing. */
export function mark(box) {
  boxes.querySelector(".marked")?.remove();
  if (box && boxes.hasAttribute("viewBox")) rectangle(box).classList.add("marked");
}

/** The point of the page, in points, at which a click on the image was. */
export function pointOf(event) {
  const { left, top, width, height } = image.getBoundingClientRect();
  const { width: across, height: down } = boxes.viewBox.baseVal;
  return [((event.clientX - left) / width) * across, ((event.clientY - top) / height) * down];
}

function rectangle([x0, y0, x1, y1]) {
  const made = document.createElementNS(SVG, "rect");
  for (const [name, value] of Object.entries({ x: x0, y: y0, width: x1 - x0, height: y1 - y0 })) {
    made.setAttribute(name, value);
  }
  boxes.append(made);
  return made;
}
