// pako
import * as pako from 'pako';
import { bytes, checks, hex } from '../checks.js';

const text = bytes('tea '.repeat(200));

export default checks({
  'deflate': () => [hex(pako.deflate(text)), pako.inflate(pako.deflate(text)).length],
  'gzip': () => new TextDecoder().decode(pako.ungzip(pako.gzip(text))).length,
  'with CompressionStream': async () => {
    const stream = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'));
    return pako.ungzip(new Uint8Array(await new Response(stream).arrayBuffer())).length;
  },
});
