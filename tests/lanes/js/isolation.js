// Prints what an earlier run left, leaves what it can, and ends in the way that the path names.
const MARK = 'svc-isolation-mark';
const BYTE = 0xa7;
const PROTOTYPES = [Object, Array, String, Function, Promise, RegExp, Map, Uint8Array, Request, Response, Headers].map((type) => type.prototype);
const retained = [];
const names = () => [globalThis, Math, JSON, Reflect, ...PROTOTYPES].map((object) => Reflect.ownKeys(object).length).join();
const initial = names();

function inspect(env) {
  const left = [];
  if (retained.length) left.push('module state');
  if (names() !== initial) left.push('names');
  if (Date.now() === 2 || Math.random() === 2) left.push('functions');
  if (RegExp.lastMatch === MARK) left.push('last match');
  if ('LEFT' in env) left.push('environment');
  for (const size of [64, 4096, 1 << 20, 8 << 20]) if (new Uint8Array(size).indexOf(BYTE) >= 0) left.push(`${size} bytes`);
  if (left.length) console.log(`left: ${left.join(', ')}`);
}

function dirty(env) {
  for (const object of [globalThis, Math, JSON, Reflect, ...PROTOTYPES]) Object.defineProperty(object, MARK, { value: MARK });
  Date.now = () => 2;
  Math.random = () => 2;
  env.LEFT = MARK;
  new RegExp(MARK).exec(MARK);
  retained.push(new Uint8Array(6 << 20).fill(BYTE), MARK.repeat(50_000), Array.from({ length: 20_000 }, (_, n) => ({ n, MARK })));
}

const chunk = new TextEncoder().encode('a part of the body');
const routes = {
  '/well': () => new Response('well'),
  '/throws': () => { throw new Error(MARK); },
  '/rejects': () => new Promise(() => {}),
  '/half': () => new Response(new ReadableStream({ pull: (c) => { if (retained.push(0) > 5) throw new Error(MARK); c.enqueue(chunk); } })),
  '/endless': () => new Response(new ReadableStream({ pull: (c) => c.enqueue(chunk) })),
  '/recursion': () => (function deeper() { return deeper() + 1; })(),
  '/memory': () => { for (;;) retained.push(new Uint8Array(1 << 20).fill(BYTE)); },
  '/spins': () => { for (;;); },
};

export default {
  fetch(request, env) {
    inspect(env);
    dirty(env);
    if (request.url.endsWith('/twice')) inspect(env);
    return (routes[new URL(request.url).pathname] ?? routes['/well'])();
  },
};
