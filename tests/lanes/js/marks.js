// Writes a mark of its caller over its memory, and ends in the way that the path names. A later run would see the mark.
const state = { rows: Array.from({ length: 500 }, (_, number) => ({ number, text: `row ${number}` })), name: 'NAME' };

function fill(mark, bytes) {
  const buffer = new Uint8Array(bytes), pattern = new TextEncoder().encode(mark);
  buffer.set(pattern);
  for (let at = pattern.length; at < bytes; at *= 2) buffer.copyWithin(at, 0, Math.min(at, bytes - at));
  return buffer;
}

const ends = {
  '/return': (mark) => new Response(mark),
  '/throw': (mark) => {
    throw new Error(mark);
  },
  '/memory': async (mark) => {
    const all = [];
    for (;;) all.push(fill(mark, 1 << 20));
  },
  '/endless': () => {
    for (;;);
  },
  '/stalled': () => new Promise(() => {}),
  '/stream': (mark) => new Response(new ReadableStream({ pull: (controller) => controller.enqueue(fill(mark, 65536)) })),
};

export default {
  async fetch(request) {
    const { pathname } = new URL(request.url), mark = request.headers.get('mark'), seen = [];
    if (globalThis.mark !== undefined || Object.prototype.mark !== undefined) seen.push('global');
    if (state.rows.some(({ number, text }) => text !== `row ${number}`)) seen.push('state');
    if (new Uint8Array(1 << 20).includes(mark.charCodeAt(0))) seen.push('new bytes');
    if (seen.length) return Response.json(seen, { status: 500 });
    globalThis.mark = Object.prototype.mark = mark;
    for (const row of state.rows) row.text = `${mark} ${row.number}`;
    state.more = [fill(mark, 2 << 20), Array.from({ length: 300 }, (_, number) => ({ [`${mark}${number}`]: [mark + number] }))];
    return ends[pathname](mark);
  },
};
