// Turns the HTML of a page into nodes that can only show: no script, no style, no link, nothing fetched. The server
// escapes what documents hold already; this is the second wall, and does not rely on the first.

const TAGS = new Set(
  ("section header footer h1 h2 h3 h4 h5 h6 p br hr ul ol li dl dt dd blockquote pre code em strong b i u s sub sup " +
    "table caption colgroup col thead tbody tfoot tr th td figure figcaption img span div aside").split(" "),
);
const DROPPED = new Set(["script", "style", "template", "iframe", "object", "embed", "svg", "noscript", "title"]);
const NUMBERS = { td: ["colspan", "rowspan"], th: ["colspan", "rowspan"], ol: ["start"] };
const BOX = /^-?[\d.]+( -?[\d.]+){3}$/;
const PICTURE = /^data:image\/(png|jpeg|webp);base64,[A-Za-z0-9+/=]+$/;

/** A DocumentFragment of what may be shown of `html`. Unknown elements give way to their content. */
export function sanitised(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html"); // inert: nothing in it runs or loads
  const shown = document.createDocumentFragment();
  copy(parsed.body, shown);
  return shown;
}

function copy(from, to) {
  for (const node of from.childNodes) {
    if (node.nodeType === Node.TEXT_NODE) {
      to.append(node.data);
    } else if (node.nodeType === Node.ELEMENT_NODE) {
      const tag = node.localName;
      if (DROPPED.has(tag) || node.namespaceURI !== "http://www.w3.org/1999/xhtml") continue;
      if (!TAGS.has(tag)) {
        copy(node, to);
        continue;
      }
      const made = document.createElement(tag);
      for (const name of NUMBERS[tag] ?? []) {
        const value = Number.parseInt(node.getAttribute(name) ?? "", 10);
        if (value > 0 && value <= 1000) made.setAttribute(name, value);
      }
      if (tag === "img") {
        const source = node.getAttribute("src") ?? "";
        if (!PICTURE.test(source)) continue;
        made.src = source;
        made.alt = node.getAttribute("alt") ?? "";
      }
      const box = node.getAttribute("data-box") ?? "";
      if (BOX.test(box)) made.dataset.box = box; // where it stands on the page
      if (node.getAttribute("dir") === "auto") made.dir = "auto";
      if (tag === "header" || tag === "footer" || tag === "aside") made.className = "beside";
      copy(node, made);
      to.append(made);
    }
  }
}
