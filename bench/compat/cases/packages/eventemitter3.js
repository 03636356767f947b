// eventemitter3
import EventEmitter from 'eventemitter3';
import { checks } from '../checks.js';

export default checks({
  'events': () => {
    const seen = [], emitter = new EventEmitter();
    emitter.on('a', (value) => seen.push(value)).once('a', () => seen.push('once'));
    return [emitter.emit('a', 1), emitter.emit('a', 2), emitter.emit('b'), seen, emitter.listenerCount('a')];
  },
});
