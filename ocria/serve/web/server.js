// The server's interface, as docs/serve.md explains it.

/** A fault that the server told: `message`, `cure`, `type`, `status` (0: no answer), `retryAfter` seconds of a full queue. */
export class ServerError extends Error {
  constructor(status, told, retryAfter) {
    super(told?.message ?? (status ? `The server answered ${status}.` : "The server does not answer."));
    this.status = status;
    this.type = told?.type ?? null;
    this.cure = told?.cure ?? null;
    this.retryAfter = retryAfter;
  }
}

let onReach = () => {};
/** Calls back with whether the server answered, after each request. */
export const watch = (callback) => (onReach = callback);

/** Uploads a file as a job. `onProgress` gets the part that is sent, 0 to 1; `signal` aborts. */
export function createJob(file, options, onProgress, signal) {
  const form = new FormData();
  for (const [name, value] of Object.entries(options)) if (value) form.append(name, value);
  form.append("file", file, file.name || "pasted.png");
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch tells nothing of an upload's progress
    request.open("POST", "v1/jobs");
    request.responseType = "json";
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onload = () => {
      if (request.status === 202) return resolve(request.response);
      const after = Number(request.getResponseHeader("Retry-After")) || undefined;
      reject(new ServerError(request.status, request.response?.error, after));
    };
    request.onerror = request.onabort = () => reject(new ServerError(0));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    onReach(false);
    throw new ServerError(0);
  }
  onReach(true);
  if (!response.ok) throw new ServerError(response.status, (await response.json().catch(() => null))?.error);
  return response;
}

export const live = () => answered("health/live");
/** The name of the model; the server answers once it is loaded. */
export const model = async () => (await (await answered("v1/models")).json()).data[0].id;
export const job = async (id) => (await answered(`v1/jobs/${id}`)).json();
export const removeJob = (id) => answered(`v1/jobs/${id}`, { method: "DELETE" });
export const pageImage = (id, page, width) => `v1/jobs/${id}/pages/${page}.png?width=${width}`;

/** The document in a format: its content as a Blob, and the name that the server gives it. */
export async function result(id, format) {
  const response = await answered(`v1/jobs/${id}/result?format=${format}&download=true`);
  const name = decodeURIComponent(response.headers.get("Content-Disposition").split("''")[1]);
  return { name, content: await response.blob() };
}

const EVENTS = [
  "job", "document_started", "page_started", "page_routed", "lines_found", "text_delta", "page_done", "engine_tick",
  "note", "document_done", "result", "error",
];

/**
 * Follows a job's events until its last one; the browser resumes after a lost connection. `onRefused` is called when
 * the server does not want to tell them any more. Returns what ends it.
 *
 * While nobody sees the tab it lets its connection go: browsers have six for a server, over all tabs, and the seventh
 * could not even load the page.
 */
export function follow(id, onEvent, onRefused) {
  let source = null;
  let last = ""; // id of the event that came last

  function open() {
    source = new EventSource(`v1/jobs/${id}/events${last && `?after=${last}`}`);
    source.onopen = () => onReach(true);
    for (const name of EVENTS) source.addEventListener(name, (event) => take(name, event));
  }
  function take(name, event) {
    if (event.data === undefined) { // an "error" of the connection, not of the job
      if (source.readyState !== EventSource.CLOSED) return onReach(false);
      end();
      return onRefused();
    }
    last = event.lastEventId || last;
    if (name === "result" || name === "error") end();
    onEvent(JSON.parse(event.data));
  }
  function look() {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (!source) {
      open();
    }
  }
  function end() {
    document.removeEventListener("visibilitychange", look);
    source?.close();
  }
  document.addEventListener("visibilitychange", look);
  look();
  return end;
}
