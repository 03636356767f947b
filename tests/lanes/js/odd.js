// Ways to fail and things to notice; each is answered alike in dev and deploy.
const encoder = new TextEncoder();

function deep() {
  throw new Error('deep');
}

const routes = {
  '/cycle'() {
    const error = new Error('outer');
    error.cause = error;
    throw error;
  },
  '/cause'() {
    throw new Error('outer', { cause: new TypeError('inner') });
  },
  '/several': () => Promise.any([Promise.reject(new Error('one')), Promise.reject(new Error('two'))]),
  '/null'() {
    throw null;
  },
  '/lines'() {
    throw new Error('not valid:\nname: too short');
  },
  '/bare'() {
    throw Object.create(null);
  },
  '/hostile'() {
    throw Object.defineProperty(new Error(), 'message', { get: deep });
  },
  '/timer'() {
    setTimeout(() => deep(), 1);
    return new Promise(() => {});
  },
  '/microtask'() {
    queueMicrotask(deep);
    return new Promise(() => {});
  },
  '/printed'() {
    try {
      deep();
    } catch (error) {
      console.error('caught', error);
    }
    return new Response('printed');
  },
  '/stack'() {
    try {
      deep();
    } catch (error) {
      console.error(error.stack);
      error.stack += 'added';
      console.error(error);
    }
    class Captured extends Error {
      constructor(message) {
        super(message);
        Error.captureStackTrace(this, Captured);
        this.name = 'Captured';
      }
    }
    const captured = (() => new Captured('own'))();
    console.error(captured);
    console.error(captured.stack);
    captured.stack = 'replaced';
    console.error(captured.stack, Object.keys(captured).join());
    return new Response('printed');
  },
  '/text'() {
    return new Response(new ReadableStream({ start: (c) => (c.enqueue('text'), c.close()) }));
  },
  '/pull'() {
    let n = 0;
    return new Response(new ReadableStream({ pull: (c) => (n++ < 2 ? c.enqueue(encoder.encode('a')) : deep()) }));
  },
  '/console'(request) {
    const form = new FormData();
    form.append('a', 'b');
    const circle = { n: 1n, f: deep, list: [1, -0, 'x', [null]], get late() { return deep(); }, 'no-name': new Date(0) };
    circle.self = circle;
    console.log({ error: new Error('inside'), after: 1 });
    console.log(request.headers, { form }, [new URLSearchParams('a=1&a=2')], new Map([[{ k: 1 }, new Set([2])]]));
    console.log(new Request('http://x/', { headers: { a: 'b' } }), new Response('x', { status: 201 }));
    console.log(circle, new Uint8Array([1, 2]), /r/g, class Own {}, Object.create(null), new Proxy({}, { ownKeys: deep }));
    console.log('%s has %d of %i, %f, %o%% %c%s', 'a', 1, '5x', 1.5, { b: 2 }, 'css', 'end', 'more', '%s');
    console.log('100%', '50%', new Blob([new Uint8Array(2 << 20)]));
    console.assert(true, 'holds');
    console.assert(false, 'text %s', 1);
    console.assert(0);
    console.assert(null, { a: 1 });
    return new Response('printed');
  },
  '/nested'() {
    let list = [];
    for (let depth = 0; depth < 10_000; depth++) list = [list];
    console.log(list);
    return new Response('printed');
  },
  '/length': () => new Response('abc', { headers: { 'content-length': '2' } }),
  '/never': () => new Promise(() => {}),
  '/stalled'() {
    let first = true;
    return new Response(new ReadableStream({
      async pull(controller) {
        await new Promise((resolve) => first && setTimeout(resolve, 200));
        first = false;
        controller.enqueue(encoder.encode('a'));
      },
    }));
  },
  async '/used'() {
    const response = new Response('x');
    await response.text();
    return response;
  },
  '/strict'() {
    undeclared = 1;
  },
  '/globals': () => Response.json(Object.keys(globalThis).filter((name) => /svc/i.test(name))),
  '/meta': () => new Response(new URL('other.js', import.meta.url).pathname),
  '/types'() {
    class Own extends Response {}
    return Response.json([new Own('x') instanceof Response, new Response().constructor === Response]);
  },
  '/names'() {
    const other = (() => {
      class Problem { static kind = Problem; }
      return Problem;
    })();
    const list = [Problem, other, MessagePort, class Own { static kind = Own; }];
    return Response.json([...list.map(({ name }) => name), new Problem().name, Static.name()]);
  },
  '/glue': () => answer(),
  '/regex': () => Response.json(/(a+)+$/.test(`${'a'.repeat(40)}!`)),
  async '/lack'() {
    const response = new Response(new Uint8Array(1_000_000)), all = [];
    try {
      for (;;) all.push(new Uint8Array(1 << 18));
    } catch {
      await response.arrayBuffer();
    }
  },
  '/bounds': () => new Headers().append({ toString: () => 'a'.repeat(40 << 20) }, ''),
  async '/memory'() {
    console.log('step 1');
    await fetch('http://127.0.0.1:9/pay?secret').catch(() => {});
    for (const all = []; ;) all.push(new Uint8Array(1 << 20).fill(1));
  },
};

// Names that the glue has too, and a class that mentions itself.
function guarded() {
  throw new Problem('of the user');
}
const answer = () => guarded();
class MessagePort {}
class Problem extends Error {
  static kind = Problem;
  constructor(message) {
    super(message);
    this.name = this.constructor.name;
  }
}
class Static {
  static kind = Static;
  static name() { return 'a method'; }
}

export default {
  fetch: (request, env, context) => routes[new URL(request.url).pathname](request, env, context),
};
