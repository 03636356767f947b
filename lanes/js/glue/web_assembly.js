// WebAssembly: present, because programs ask whether it is, and without compilation, which a component cannot do.
import { defineMissing } from './define.js';

class CompileError extends Error {}
class LinkError extends Error {}
class RuntimeError extends Error {}
for (const type of [CompileError, LinkError, RuntimeError]) type.prototype.name = type.name;

function refused(name) {
  const text = 'a component cannot compile code; use a version of the package in JavaScript, or a go or rust resource';
  return new CompileError(`WebAssembly.${name} is not available: ${text}`);
}

const functions = ['compile', 'compileStreaming', 'instantiate', 'instantiateStreaming'];
const classes = ['Global', 'Instance', 'Memory', 'Module', 'Table', 'Tag'];

defineMissing(globalThis, {
  WebAssembly: {
    ...Object.fromEntries(functions.map((name) => [name, async () => { throw refused(name); }])),
    ...Object.fromEntries(classes.map((name) => [name, class { constructor() { throw refused(name); } }])),
    validate: () => false,
    CompileError, LinkError, RuntimeError,
  },
});
