// The server's interface, as docs/serve.md explains it.

/** A fault that the server told: `message`, `cure`, `status`, and `retryAfter` seconds of a full queue. */
export class ServerError extends Error {
  constructor(status, told, retryAfter) {
    super(told?.message ?? `The server answered ${status}.`);
    this.status = status;
    this.cure = told?.cure ?? null;
    this.retryAfter = retryAfter;
  }
}

/** Uploads a file as a job. `onProgress` gets the part that is sent, 0 to 1. */
export function createJob(file, options, onProgress) {
  const form = new FormData();
  for (const [name, value] of Object.entries(options)) if (value) form.append(name, value);
  form.append("file", file, file.name || "pasted.png");
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch tells nothing of an upload's progress
    request.open("POST", "v1/jobs");
    request.responseType = "json";
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onload = () => {
      if (request.status === 202) resolve(request.response);
      else {
        const after = Number(request.getResponseHeader("Retry-After")) || undefined;
        reject(new ServerError(request.status, request.response?.error, after));
      }
    };
    request.onerror = () => reject(new ServerError(0, { message: "The server does not answer.", cure: "Is it still running?" }));
    request.send(form);
  });
}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new ServerError(0, { message: "The server does not answer.", cure: "Is it still running?" });
  }
  if (!response.ok) {
    const told = await response.json().catch(() => null);
    throw new ServerError(response.status, told?.error);
  }
  return response;
}

export const health = () => answered("health");
/** The name of the model; the server answers once it is loaded. */
export const model = async () => (await (await answered("v1/models")).json()).data[0].id;
export const job = async (id) => (await answered(`v1/jobs/${id}`)).json();
export const removeJob = (id) => answered(`v1/jobs/${id}`, { method: "DELETE" });
export const pageImage = (id, page, width) => `v1/jobs/${id}/pages/${page}.png?width=${width}`;
export const resultUrl = (id, format) => `v1/jobs/${id}/result?format=${format}&download=true`;

const EVENTS = [
  "job", "document_started", "page_started", "page_routed", "lines_found", "text_delta", "page_done", "engine_tick",
  "note", "document_done", "result", "error",
];

/** Follows a job's events until its last one; the browser resumes after a lost connection. Returns what ends it. */
export function follow(id, onEvent) {
  const source = new EventSource(`v1/jobs/${id}/events`);
  for (const name of EVENTS) {
    source.addEventListener(name, (event) => {
      if (event.data === undefined) return; // a lost connection, which EventSource mends, is an "error" too
      const told = JSON.parse(event.data);
      if (name === "result" || name === "error") source.close();
      onEvent(told);
    });
  }
  return () => source.close();
}
