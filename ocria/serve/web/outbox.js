// Documents on their way to the server: one upload at a time; a full queue and a server that is away are waited for.

import * as server from "./server.js";

const AGAIN = 3; // seconds until a server that is away is tried again

const waiting = [];
let sending = false;
let abort = null; // ends the upload of the first one

window.addEventListener("beforeunload", (event) => {
  if (waiting.length) event.preventDefault(); // they would be lost
});

/** Sends `doc.file` with `doc.asked`, then calls `done(doc, told)` or `refused(doc, error)`; `tell(doc, state, part)`
 * says how far it is. */
export function send(doc, callbacks) {
  waiting.push({ doc, ...callbacks });
  callbacks.tell(doc, "unsent", 0);
  work();
}

/** Takes a document back. Returns whether it was still here. */
export function takeBack(doc) {
  const index = waiting.findIndex((one) => one.doc === doc);
  if (index < 0) return false;
  waiting.splice(index, 1);
  if (index === 0) abort?.abort();
  return true;
}

async function work() {
  if (sending) return;
  sending = true;
  while (waiting.length) {
    const one = waiting[0];
    const { doc, tell } = one;
    let end;
    try {
      abort = new AbortController();
      const signal = abort.signal;
      await readable(doc.file);
      const told = await server.createJob(doc.file, doc.asked, (part) => tell(doc, "sending", part), signal);
      end = () => one.done(doc, told);
    } catch (error) {
      const seconds = waiting[0] === one ? await patience(error) : 0;
      if (seconds) {
        tell(doc, error.status === 429 ? "full" : "away", 0);
        await new Promise((later) => setTimeout(later, 1000 * seconds));
        continue;
      }
      end = () => one.refused(doc, error);
    }
    if (waiting[0] !== one) continue; // taken back meanwhile
    waiting.shift();
    end();
  }
  sending = false;
}

async function readable(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch {
    throw new Error("The browser cannot read this file any more.");
  }
}

/** Seconds after which it makes sense to try again; 0 where it makes none. */
async function patience(error) {
  if (error.status === 429) return error.retryAfter ?? AGAIN;
  if (error.type === "stopping") return AGAIN;
  if (error.status !== 0) return 0;
  try {
    await server.live();
  } catch {
    return AGAIN;
  }
  error.message = "The server broke off while the file was sent."; // it is there, so it does not want this file
  error.cure = "It may be larger than the server takes (--max-bytes).";
  return 0;
}
