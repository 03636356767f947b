// tar-stream
import tar from 'tar-stream';
import { checks } from '../checks.js';

export default checks({
  'write and read': async () => { const pack = tar.pack(); pack.entry({ name: 'a.txt', mtime: new Date(0) }, 'tea'); pack.finalize(); const names = []; const extract = tar.extract(); pack.pipe(extract); for await (const entry of extract) { names.push(entry.header.name); entry.resume(); } return names; },
});
