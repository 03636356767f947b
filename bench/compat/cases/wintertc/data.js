// URLs, encodings, files and events
import { bytes, checks, equal, hex, thrown } from '../checks.js';

export default checks({
  'URL': async () => {
    const url = new URL('../b c?x=ü#y', 'HTTP://User@EXAMPLE.com:80/a/d/e');
    equal([url.href, url.origin, url.username, await thrown(() => new URL('nothing'))],
      ['http://User@example.com/a/b%20c?x=%C3%BC#y', 'http://example.com', 'User', 'TypeError']);
  },
  'URL setters': () => {
    const url = new URL('http://a.example/');
    Object.assign(url, { port: '8080', pathname: '/ü', search: 'a=1', hash: 'b', protocol: 'https' });
    equal(url.href, 'https://a.example:8080/%C3%BC?a=1#b');
  },
  'URL.canParse and URL.parse': () => equal([URL.canParse('/a', 'http://b.example'), URL.canParse('a'), URL.parse('a'), URL.parse('/a', 'http://b.example').href],
    [true, false, null, 'http://b.example/a']),
  'URL with an international host': () => equal([new URL('http://müller.example/').host, new URL('http://ＡＢ.example/').host], ['xn--mller-kva.example', 'ab.example']),
  'URLSearchParams': () => {
    const params = new URLSearchParams('b=2&a=1&b=+3%26');
    params.append('c', 'ü');
    params.sort();
    equal([String(params), params.getAll('b'), params.has('b', '2'), params.size], ['a=1&b=2&b=+3%26&c=%C3%BC', ['2', ' 3&'], true, 4]);
  },
  'URLPattern': () => {
    const pattern = new URLPattern({ pathname: '/users/:id(\\d+){/:action}?' });
    equal([pattern.test('http://a.example/users/x'), pattern.exec('http://a.example/users/7/edit').pathname.groups], [false, { id: '7', action: 'edit' }]);
  },
  'TextEncoder': () => {
    const target = new Uint8Array(4);
    equal([hex(new TextEncoder().encode('ü\ud800')), new TextEncoder().encodeInto('aüü', target)], ['c3bcefbfbd', { read: 2, written: 3 }]);
  },
  'TextDecoder': async () => {
    const decoder = new TextDecoder('utf-8', { fatal: true });
    equal([decoder.decode(bytes('\ufeffü')), await thrown(() => decoder.decode(new Uint8Array([255]))), new TextDecoder().decode(new Uint8Array([0xe2, 0x82]))],
      ['ü', 'TypeError', '\ufffd']);
  },
  'TextDecoder of other encodings': () => equal(
    [['windows-1252', [0x80]], ['shift_jis', [0x82, 0xa0]], ['utf-16le', [0x61, 0]], ['koi8-r', [0xc1]]].map(([label, data]) => new TextDecoder(label).decode(new Uint8Array(data))),
    ['€', 'あ', 'a', 'а'],
  ),
  'Blob': async () => {
    const blob = new Blob(['te', bytes('a'), new Blob(['!'])], { type: 'Text/Plain' });
    equal([blob.size, blob.type, await blob.slice(1, -1).text(), hex(await blob.bytes()), await new Response(blob.stream()).text()],
      [4, 'text/plain', 'ea', '74656121', 'tea!']);
  },
  'File': async () => {
    const file = new File([new Uint8Array([255, 0])], 'a.bin', { type: 'a/b', lastModified: 5 });
    equal([file.name, file.lastModified, file instanceof Blob, hex(await file.arrayBuffer())], ['a.bin', 5, true, 'ff00']);
  },
  'FormData': () => {
    const form = new FormData();
    form.append('a', 1);
    form.append('b', new Blob(['x']), 'b.txt');
    form.set('a', '2');
    equal([...form].map(([name, value]) => [name, typeof value === 'string' ? value : value.name]), [['a', '2'], ['b', 'b.txt']]);
  },
  'EventTarget': () => {
    const seen = [], target = new EventTarget();
    target.addEventListener('a', { handleEvent: ({ type }) => seen.push(type) }, { once: true });
    target.addEventListener('a', (event) => event.preventDefault());
    equal([target.dispatchEvent(new Event('a', { cancelable: true })), target.dispatchEvent(new Event('a')), seen], [false, true, ['a']]);
  },
  'CustomEvent': () => equal(new CustomEvent('a', { detail: { b: 1 } }).detail, { b: 1 }),
  'ErrorEvent': () => {
    const { message, error, lineno } = new ErrorEvent('error', { message: 'no', error: 5, lineno: 7 });
    equal([message, error, lineno], ['no', 5, 7]);
  },
  'DOMException': () => {
    const error = new DOMException('no', 'AbortError');
    equal([error.code, error.name, error instanceof Error, typeof error.stack], [20, 'AbortError', true, 'string']);
  },
  'AbortSignal.any': () => equal([AbortSignal.any([AbortSignal.abort('x')]).reason, AbortSignal.any([]).aborted], ['x', false]),
  'AbortSignal.timeout': async () => {
    const signal = AbortSignal.timeout(1);
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    equal([signal.reason.name, await thrown(() => signal.throwIfAborted())], ['TimeoutError', 'TimeoutError']);
  },
});
