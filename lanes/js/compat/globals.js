// Globals of Node.js, which a bundle contains if it uses them.
export { Buffer } from 'node:buffer';
export { clearImmediate, setImmediate } from 'node:timers';
