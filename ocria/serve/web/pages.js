// What is known of a document's pages, kept up by the server's events.

/** Statuses of which a page is over. */
export const OVER = new Set(["ok", "blank", "failed", "truncated", "degenerate", "timeout", "cancelled"]);

export class Pages {
  constructor() {
    this.numbers = [];
    this.byNumber = new Map();
    this.latest = null; // the one that an event told of last
  }

  /** The page with a number, made when it is met first. */
  page(number) {
    let page = this.byNumber.get(number);
    if (!page) {
      page = { number, status: "queued", boxes: [], lines: new Map(), html: null, markdown: null, size: null, notes: [] };
      this.byNumber.set(number, page);
      this.numbers.push(number);
      this.numbers.sort((a, b) => a - b);
    }
    return page;
  }

  /** Takes one event; returns the page it tells of, or null. */
  take(event) {
    if (event.page === undefined || event.page === null) return null;
    const page = this.page(event.page);
    this.latest = page;
    switch (event.type) {
      case "page_started":
        page.status = "running";
        break;
      case "page_routed":
        page.route = event.route;
        page.reason = event.reason;
        break;
      case "lines_found":
        page.boxes = event.boxes;
        page.size = event.size ?? page.size;
        break;
      case "text_delta":
        page.lines.set(event.unit, (page.lines.get(event.unit) ?? "") + event.text);
        break;
      case "page_done":
        Object.assign(page, {
          status: event.status, route: event.route, seconds: event.seconds, markdown: event.markdown,
          html: event.html ?? null, size: event.size ?? page.size,
        });
        break;
      case "note":
        page.notes.push(event.message);
        break;
    }
    return page;
  }

  /** How many pages are over. */
  get done() {
    return [...this.byNumber.values()].filter((page) => OVER.has(page.status)).length;
  }

  /** The page that is read now, the first of several. */
  get running() {
    return this.numbers.find((number) => this.byNumber.get(number).status === "running") ?? null;
  }

  /** The text of a page as far as it is known, lines in reading order. */
  static text(page) {
    if (page.markdown !== null) return page.markdown;
    return [...page.lines.entries()].sort((a, b) => a[0] - b[0]).map(([, text]) => text).join("\n");
  }
}
