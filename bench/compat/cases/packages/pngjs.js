// pngjs
import { PNG } from 'pngjs';
import { checks, hex } from '../checks.js';

function image() {
  const png = new PNG({ width: 4, height: 3 });
  for (let at = 0; at < png.data.length; at++) png.data[at] = (at * 37) % 256;
  return png;
}

export default checks({
  'write and read': () => {
    const { width, height, data } = PNG.sync.read(PNG.sync.write(image()));
    return [width, height, hex(data)];
  },
});
