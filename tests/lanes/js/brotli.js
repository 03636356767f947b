// DecompressionStream of the format brotli, whose decoder each request to a dev build evaluates.
async function thrown(action) {
  try {
    await action();
  } catch (error) {
    return error.name;
  }
  return 'nothing';
}

export default {
  async fetch() {
    const decoded = (base64) => new Response(new Blob([Uint8Array.fromBase64(base64)]).stream().pipeThrough(new DecompressionStream('brotli'))).text();
    const { constructor, readable } = new DecompressionStream('brotli');
    const instances = [constructor === DecompressionStream, readable instanceof ReadableStream, new DecompressionStream('gzip') instanceof DecompressionStream];
    const errors = [await thrown(() => decoded('G8cA+KVB')), await thrown(() => new DecompressionStream('br'))];
    return Response.json([await decoded('G8cA+KVBwsrohGgBgH8C'), ...instances, ...errors]);
  },
};
