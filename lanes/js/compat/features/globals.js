// Globals of Node.js.
export { Buffer } from 'node:buffer';
export { clearImmediate, setImmediate } from 'node:timers';
