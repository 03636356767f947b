// Requests to Doors.
const encoder = new TextEncoder();
const START = Symbol.for('svc.start');
let turn;

// Post a text; return the status and the text, without an await if they are there within some milliseconds, or else as a
// promise. Hosted, it is one call of the host, which is faster than fetch(). Other work waits that long.
export function call(door, path, body) {
  const answer = globalThis[START]?.(door, path, body);
  return answer?.[0] ? answer : fetched(door, path, body, answer?.[1]);
}

// Several calls that begin in one turn wait together.
export async function post(door, path, body) {
  const own = (turn ??= { calls: 0 });
  own.calls += 1;
  await undefined;
  turn = undefined;
  return own.calls === 1 ? call(door, path, body) : fetched(door, path, body);
}

// The host has begun to answer a request that has a URL.
async function fetched(door, path, body, url) {
  const name = `SVC_${door.toUpperCase()}_ENDPOINT`, endpoint = url ?? globalThis.process?.env?.[name];
  if (!endpoint) throw new Error(`${name} is not set: this program is not hosted by svc`);
  // Bytes, since a text would get a content type: each header is a call of the host.
  const request = url ? [url] : [`${endpoint}${path}`, { method: 'POST', body: encoder.encode(body) }];
  const response = await fetch(...request);
  return [response.status, await response.text()];
}

// A response that is not a document is described by its status.
export function documentOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
