// mitt
import mitt from 'mitt';
import { checks } from '../checks.js';

export default checks({
  'events': () => {
    const seen = [], emitter = mitt();
    emitter.on('*', (type, value) => seen.push([type, value]));
    emitter.emit('a', { b: 1 });
    emitter.all.clear();
    emitter.emit('a');
    return seen;
  },
});
