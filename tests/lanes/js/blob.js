// Checks of large blobs. Each returns a value that test_blob.py compares, the same in dev and deploy.
const MIB = 1 << 20;
const letters = (count, letter) => new Uint8Array(count).fill(letter.charCodeAt(0));
const text = 'é'.repeat(MIB / 2) + 'tea';
const parts = () => ['a\r\nb', letters(MIB, 'c'), new Blob(['d']), new Uint16Array([0x6565, 0x6565]).subarray(1), letters(1, 'f').buffer, 7];
const brief = (value) => value.replace(/c+/, (run) => (run.length === MIB ? 'C' : `c${run.length}`));

async function sized(stream) {
  let size = 0;
  for await (const chunk of stream) size += chunk.length;
  return size;
}

const checks = {
  async 'parts'() {
    const blob = new Blob(parts(), { type: 'Text/Plain' });
    const bytes = await blob.bytes(), buffer = await blob.arrayBuffer();
    return [blob.size, blob.type, brief(await blob.text()), bytes.length, buffer.byteLength, blob instanceof Blob, `${blob}`];
  },
  async 'line-endings'() {
    return brief(await new Blob(parts(), { endings: 'native' }).text());
  },
  async 'text'() {
    const blob = new Blob(['\ufeff', text]);
    return [blob.size, (await blob.text()) === text];
  },
  async 'bytes-are-copied'() {
    const bytes = letters(MIB, 'a'), blob = new Blob([bytes]);
    bytes.fill(98);
    for await (const chunk of blob.stream()) chunk.fill(98);
    (await blob.bytes()).fill(98);
    return (await blob.slice(-2).text()) + (await blob.slice(0, 2).text());
  },
  async 'slice'() {
    const blob = new Blob(parts()), large = blob.slice(1, -1, 'a/b');
    const shown = async (...args) => brief(await blob.slice(...args).text());
    return [
      large.size, large.type, brief(await large.text()), brief(await large.slice(2, 6).text()), await shown(-3), await shown(0, 4),
      await shown(5, 2), await shown(NaN, '3'), await shown(-1e9, 1e9), await shown(undefined, 2), (await shown(3, MIB + 5)).length,
    ];
  },
  async 'blob-of-blobs'() {
    const blob = new Blob(parts()), both = new Blob([blob, '-', blob.slice(MIB)]);
    return [both.size, brief(await both.text())];
  },
  async 'file'() {
    const file = new File(parts(), 'a.txt', { type: 'text/plain', lastModified: 5 });
    return [file.size, file.name, file.type, file.lastModified, file instanceof File, brief(await file.text())];
  },
  async 'stream'() {
    const blob = new Blob(parts()), reader = blob.stream().getReader({ mode: 'byob' });
    const { value } = await reader.read(new Uint8Array(4));
    const sizes = await Promise.all(blob.stream().tee().map(sized));
    return [[...value], ...sizes, brief(await new Response(blob.stream()).text())];
  },
  async 'clone'() {
    const file = new File(parts(), 'a.txt', { type: 'a/b', lastModified: 5 }), copy = structuredClone({ list: [file, file] }).list;
    const blob = structuredClone(new Blob([file], { type: 'c/d' }));
    return [copy[0] === copy[1], copy[0] === file, copy[0].name, copy[0].lastModified, copy[0].size, blob.type, brief(await blob.text())];
  },
  async 'response'() {
    const blob = new Blob(parts(), { type: 'a/b' }), response = new Response(blob), typed = new Response(blob, { headers: { 'content-type': 'c/d' } });
    const seen = [response.headers.get('content-type'), response.headers.get('content-length'), typed.headers.get('content-type')];
    const [copy, body] = [response.clone(), await response.blob()];
    return [...seen, body.size, body.type, brief(await body.text()), brief(await copy.text()), response.bodyUsed];
  },
  async 'request'() {
    const request = new Request('http://a/', { method: 'POST', body: new Blob(parts(), { type: 'a/b' }) });
    const { headers } = request;
    return [headers.get('content-type'), headers.get('content-length'), brief(await request.clone().text()), (await request.bytes()).length];
  },
  async 'form'() {
    const form = new FormData();
    form.append('a"\n', 'line\nline');
    form.append('blob', new Blob(parts(), { type: 'a/b' }));
    form.append('renamed', new File(parts(), 'old'), 'new "name"');
    form.set('file', new File(parts(), 'é.txt', { lastModified: 5 }));
    const read = await new Response(form).formData(), shown = [];
    for (const [name, value] of read) shown.push([name, typeof value === 'string' ? value : [value.name, value.type, value.size]]);
    return [form.get('file').lastModified, ...shown, brief(await read.get('file').text())];
  },
  async 'reader'() {
    const reader = new FileReader();
    return new Promise((resolve) => {
      reader.onload = () => resolve(brief(reader.result));
      reader.readAsText(new Blob(parts()));
    });
  },
  async 'compressed'() {
    const blob = new Blob([letters(40 * MIB, 'a')]), compressed = blob.stream().pipeThrough(new CompressionStream('gzip'));
    return sized(compressed.pipeThrough(new DecompressionStream('gzip')));
  },
  async 'many-parts'() {
    const blob = new Blob(Array.from({ length: 40 }, () => letters(MIB, 'a'))), slices = [];
    for (let at = 0; at < blob.size; at += MIB) slices.push(blob.slice(at, at + 10 * MIB));
    return new Blob(slices).size;
  },
};

export default {
  async fetch(request) {
    const name = new URL(request.url).pathname.slice(1);
    if (name === 'sent') return new Response(new Blob([letters(3 * MIB, 'a')], { type: 'text/plain' }));
    return Response.json(await checks[name]());
  },
};
