// Allocations that do not fit into memory: each throws an error that code can catch.
const MIB = 1 << 20;
const bytes = (mib) => new Uint8Array(mib * MIB).fill(97);
const text = (mib) => 'a'.repeat(mib * MIB);
/** A stream of chunks of 64 KiB. */
const endless = (mib) => {
  let left = mib * 16;
  return new ReadableStream({ pull: (c) => (left-- ? c.enqueue(new Uint8Array(65536).fill(97)) : c.close()) });
};

const sized = async (stream) => {
  let size = 0;
  for await (const chunk of stream) size += chunk.length;
  return { size };
};

const routes = {
  '/streamed': () => sized(endless(100)),
  '/compressed': () => sized(endless(100).pipeThrough(new CompressionStream('gzip')).pipeThrough(new DecompressionStream('gzip'))),
  '/graph': () => Array.from({ length: 4e5 }, (_, a) => ({ a, b: [a], c: `x${a}` })),
  '/array': () => new Uint8Array(200 * MIB),
  '/blob': () => new Blob([bytes(40), bytes(20)]),
  '/blobs': () => Array.from({ length: 200 }, () => new Blob([new Uint8Array(2 * MIB)])),
  '/file': () => new File([bytes(40), bytes(20)], 'a'),
  '/blob-text': () => new Blob([text(50)]),
  '/blob-array-buffer': () => new Blob([bytes(40)]).arrayBuffer().then((buffer) => [buffer, bytes(40)]),
  '/response': () => [bytes(30), 1, 2, 3].map((_, index, [all]) => index && new Response(all)),
  '/array-buffer': () => new Response(bytes(40)).arrayBuffer(),
  '/bytes': () => new Response(endless(120)).bytes(),
  '/text': () => new Response(endless(160)).text(),
  '/json': () => new Response(endless(160)).json(),
  '/body-blob': () => new Response(endless(120)).blob(),
  '/request': () => new Request('http://a/', { method: 'POST', body: bytes(60) }),
  '/fetch': () => fetch('http://127.0.0.1:9/', { method: 'POST', body: bytes(60) }),
  '/decode': () => new TextDecoder('utf-16le').decode(bytes(60)),
  '/encode': () => new TextEncoder().encode(text(70)),
  '/btoa': () => btoa(text(30)),
  '/url': () => new URL(`http://a/${text(40)}`),
  '/parameters': () => new URLSearchParams(`a=${text(40)}`),
  '/headers': () => new Headers([['a', text(40)]]),
  '/append': () => new Headers().append('a', text(40)),
  '/response-headers': () => new Response('', { headers: { a: text(40) } }),
  '/request-headers': () => new Request('http://a', { headers: { a: text(40) } }),
  '/objects': () => {
    const all = [];
    for (;;) all.push({ a: all.length });
  },
  '/list': () => {
    let all = null;
    for (;;) all = { next: all };
  },
  '/closures': () => {
    let all = null;
    for (;;) {
      const next = all;
      all = () => next;
    }
  },
  '/name': () => new Headers().append(text(40), ''),
  '/name-of-an-object': () => new Headers({ [text(40)]: '' }),
  '/names': () => new Headers([[text(40), '']]),
  '/values': () => {
    const headers = new Headers();
    for (;;) headers.append('a', text(25));
  },
  '/parameter': () => {
    const parameters = new URLSearchParams();
    for (;;) parameters.append('a', text(10));
  },
  '/set-parameter': () => new URLSearchParams().set('a', text(40)),
  '/object-of-parameters': () => new URLSearchParams({ a: text(40) }),
  '/encoded-parameter': () => new URLSearchParams().append('a', '€'.repeat(5 * MIB)),
  '/parameter-of-a-url': () => new URL('http://a/').searchParams.append('a', text(40)),
  '/search': () => { new URL('http://a/').search = text(40); },
  '/hash': () => { new URL('http://a/').hash = '€'.repeat(5 * MIB); },
  '/base': () => new URL('b', `http://a/${text(40)}`),
  '/type': () => new Blob([], { type: text(60) }),
  '/form': () => {
    const form = new FormData();
    for (;;) form.append('a', new Blob([bytes(20)]), 'name');
  },
  '/redirect': () => Response.redirect(`http://a/${text(40)}`),
  '/log': () => console.log(text(60)),
  '/log-of-an-object': () => console.log({ a: text(40), b: [text(10)] }),
  '/log-of-bytes': () => console.log(bytes(40)),
  '/log-of-values': () => console.log(new Array(3e6).fill(1)),
  '/log-of-objects': () => console.log(Array.from({ length: 1e5 }, () => ({}))),
  '/recursion': () => (function deeper() { return deeper() + 1; })(),
  '/concat': () => {
    let all = 'a';
    for (;;) all += all;
  },
};

export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    try {
      const value = await routes[pathname](request);
      return new Response(`completed ${value?.size ?? value?.byteLength ?? value?.length}`);
    } catch (error) {
      return new Response(error instanceof Error ? `${error.name}: ${error.message}` : `thrown ${error}`);
    }
  },
};
