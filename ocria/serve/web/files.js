// Files that people choose, drop or paste, folders with all that is in them.

/** Calls `take` with arrays of {file, name} for all that is chosen in `input`, dropped on the window or pasted. */
export function takeFiles(input, take) {
  input.addEventListener("change", () => {
    take(named(input.files));
    input.value = ""; // the same file can be chosen again
  });
  document.addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) take(named(event.clipboardData.files));
  });
  const over = (is) => document.body.classList.toggle("over", is);
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return; // a text that is dragged
    event.preventDefault();
    over(true);
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget || over(false));
  document.addEventListener("drop", async (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    over(false);
    take(await dropped(event.dataTransfer));
  });
}

const named = (files) => [...files].map((file) => ({ file, name: file.name || "pasted image" }));

async function dropped(transfer) {
  // Entries must be asked for before anything is waited for.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return named(transfer.files);
  const found = [];
  for (const entry of entries) await walk(entry, found);
  return found;
}

/** Adds the files of an entry by name, without hidden ones. */
async function walk(entry, found) {
  if (entry.name.startsWith(".")) return;
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    found.push({ file, name: entry.fullPath.replace(/^\//, "") });
    return;
  }
  const reader = entry.createReader();
  const inside = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // a hundred at most
    if (!some.length) break;
    inside.push(...some);
  }
  inside.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
  for (const one of inside) await walk(one, found);
}
