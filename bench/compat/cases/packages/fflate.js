// fflate
import { gunzipSync, gzip, gzipSync, strFromU8, strToU8, unzipSync, zipSync, zlibSync } from 'fflate';
import { checks, hex } from '../checks.js';

const text = strToU8('tea '.repeat(200));

export default checks({
  'gzip': () => strFromU8(gunzipSync(gzipSync(text, { mtime: 1 }))).length,
  'zlib': () => hex(zlibSync(text)),
  'zip': () => {
    const files = unzipSync(zipSync({ 'a.txt': text, 'b/ü.txt': [strToU8('x'), { level: 0 }] }, { mtime: '2000-01-01' }));
    return Object.entries(files).map(([name, data]) => [name, data.length]);
  },
  'gzip without blocking': () => new Promise((resolve, reject) => {
    gzip(text, { consume: false }, (error, data) => (error ? reject(error) : resolve(gunzipSync(data).length)));
  }),
});
