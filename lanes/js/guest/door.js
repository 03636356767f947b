// Requests to Doors.
const encoder = new TextEncoder();
const START = Symbol.for('svc.start');
let turn;

// Post a text; return the status and the text, without an await if they are there within some milliseconds, or else as a
// promise. Hosted, it is one call of the host, which is faster than fetch(). Other work waits that long.
export function call(door, path, body) {
  const answer = globalThis[START]?.(door, path, body);
  if (answer?.[0]) return answer;
  // With a URL, the host has begun to answer.
  return answer ? fetch(answer[1]).then(received) : fetched(door, path, body);
}

// Several calls that begin in one turn wait together.
export async function post(door, path, body) {
  const own = (turn ??= { calls: 0 });
  own.calls += 1;
  await undefined;
  turn = undefined;
  return own.calls === 1 ? call(door, path, body) : fetched(door, path, body);
}

async function fetched(door, path, body) {
  const name = `SVC_${door.toUpperCase()}_ENDPOINT`, endpoint = globalThis.process?.env?.[name];
  if (!endpoint) throw new Error(`${name} is not set: this program is not hosted by svc`);
  // Bytes, since a text would get a content type: each header is a call of the host.
  return received(await fetch(`${endpoint}${path}`, { method: 'POST', body: encoder.encode(body) }));
}

async function received(response) {
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
