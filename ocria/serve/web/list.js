// The list of documents: a row each, with its state, its progress and a button that removes it.

/** Whether nothing more happens to a document. */
export const isOver = (state) => ["done", "failed", "cancelled", "gone"].includes(state);

const WORDS = {
  unsent: "waits to be sent", sending: "is sent", full: "waits for room in the queue", away: "waits for the server",
  cancelled: "cancelled", gone: "The server does not have it any more.",
};

/** What a row and the main part say of a document, and which part of it is read, null where there is no progress. */
export function described({ told, part }) {
  const { state, status, ahead, pages: count, pages_done: done = 0, seconds, error } = told;
  switch (state) {
    case "waiting":
      return { words: ahead ? `waits behind ${ahead}` : "waits", part: 0 };
    case "running":
      return { words: count ? `page ${Math.min(done + 1, count)} of ${count}` : "opens", part: count ? done / count : 0 };
    case "done": {
      const pages = count ?? done;
      const words = `${pages} page${pages === 1 ? "" : "s"} in ${(seconds ?? 0).toFixed(1)} s`;
      return { words: status && status !== "ok" ? `${words}, ${status}` : words, part: null };
    }
    case "failed":
      return { words: error?.message ?? "failed", part: null };
    default:
      return { words: WORDS[state], part: isOver(state) ? null : (part ?? 0) };
  }
}

/** Makes the row of a document at the end of `list`. Returns what changes it. */
export function rowOf(list, name, onOpen, onRemove) {
  const element = document.getElementById("row").content.firstElementChild.cloneNode(true);
  const [open, remove] = element.querySelectorAll("button");
  const [title, progress, state] = open.children;
  title.textContent = open.title = name;
  remove.setAttribute("aria-label", `Remove ${name}`);
  open.onclick = onOpen;
  remove.onclick = onRemove;
  list.append(element);
  return {
    update(doc) {
      const { words, part } = described(doc);
      state.textContent = words;
      progress.hidden = part === null;
      progress.value = part ?? 0;
      element.dataset.state = doc.told.state;
    },
    mark: (shown) => open.setAttribute("aria-current", shown),
    remove() {
      const near = element.nextElementSibling ?? element.previousElementSibling;
      const focused = element.contains(document.activeElement);
      element.remove();
      if (focused) (near?.querySelector(".open") ?? document.getElementById("files")).focus();
    },
  };
}
