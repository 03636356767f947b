// jszip
import JSZip from 'jszip';
import { checks } from '../checks.js';

export default checks({
  'write and read': async () => { const zip = new JSZip(); zip.file('a/b.txt', 'tea '.repeat(100)); const data = await zip.generateAsync({ type: 'uint8array', compression: 'DEFLATE' }); const read = await JSZip.loadAsync(data); return [data.length < 400, await read.file('a/b.txt').async('string')]; },
});
