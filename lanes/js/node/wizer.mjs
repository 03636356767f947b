#!/usr/bin/env node
// The program that componentize-js runs as wizer while a template is made (see template.mjs):
//
//   wizer.mjs [--mapdir=GUEST::HOST] [--dir=FOLDER] --init-func NAME -o=OUT IN < INPUT
//
// It stores in SVC_TEMPLATE what later snapshots need, and writes the snapshot of this run. The glue is there already
// if the world has one that is not the main module.
import { copyFileSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync, writevSync } from 'node:fs';
import { join } from 'node:path';
import { snapshot, withGlobals } from './snapshot.mjs';

const SCRIPTS = '/svc-init'; // the path of componentize-js's scripts inside the module
const HEAP = 32; // MiB of objects in the component of the template, whose memory each build replaces
const VARIABLES = /^(DEBUG|SOURCE_NAME|(EXPORT|IMPORT|FEATURE)[A-Z0-9_]*)$/;

// Functions of componentize-js's script with faster ones of the same result. Its own encoder reads each character
// in JavaScript: 0.6 µs, so 40 ms for a body of 64 KiB. Its log reads process.env at each call of the host.
const REPLACED = {
  _utf8AllocateAndEncode: `function _utf8AllocateAndEncode(s, realloc, memory) {
  if (typeof s !== 'string') throw new TypeError('expected a string, received [' + typeof s + ']');
  if (s.length === 0) return { ptr: 1, len: 0 };
  const bytes = TEXT_ENCODER_UTF8.encode(s), len = bytes.length, ptr = realloc(0, 0, 1, len);
  new Uint8Array(memory.buffer, ptr, len).set(bytes);
  return { ptr, len };
}`,
  _debugLog: 'const _debugLog = () => {};',
};

/** Return a script with the functions of `REPLACED`. Throws if one of them is missing at its top level. */
function faster(script) {
  return Object.entries(REPLACED).reduce((text, [name, source]) => {
    const pattern = new RegExp(`^(function ${name}\\(|const ${name} = )[^]*?^\\}[;]?$`, 'm');
    if (!pattern.test(text)) throw new Error(`the script of componentize-js has no function ${name}`);
    return text.replace(pattern, () => source);
  }, script);
}

/**
 * Return a script that also evaluates the glue, in the realm of the main module, which imports it as `svc:glue`.
 *
 * Were the glue a module that the main module imports, the engine would read it after the main module. Then all
 * objects of the glue would have other addresses in each program, and the memories of programs little in common.
 */
function withGlue(script, glue) {
  const source = `(function (require, module) { "use strict"; ${glue}\n})\n//# sourceURL=svc-glue.js`;
  return `const svcModules = {}, svcDefine = defineBuiltinModule, svcGlue = { exports: {} };
defineBuiltinModule = (name, exports) => { svcModules[name] = exports; svcDefine(name, exports); };
${script}
contentGlobal.eval(${JSON.stringify(source)})((name) => svcModules[name], svcGlue);
svcDefine('svc:glue', { svcHost: svcGlue.exports.svcHost });
`;
}

const options = process.argv.slice(2);
const option = (prefix) => options.find((each) => each.startsWith(prefix)).slice(prefix.length);
const scripts = option('--dir='), [guest, host] = option('--mapdir=').split('::');
const names = Object.keys(process.env).filter((name) => VARIABLES.test(name)).sort();
const run = {
  init: options[options.indexOf('--init-func') + 1],
  env: Object.fromEntries(names.map((name) => [name, process.env[name]])),
  // Arguments stay in the memory, so they must not contain a path of this machine.
  input: readFileSync(0, 'utf8').replaceAll(scripts, SCRIPTS).replaceAll(`${host}/`, guest),
};
const folder = process.env.SVC_TEMPLATE;
mkdirSync(join(folder, 'scripts'));
const script = join(scripts, 'initializer.js'), glue = join(folder, 'svc-glue.js');
const fast = faster(readFileSync(script, 'utf8'));
writeFileSync(script, existsSync(glue) ? withGlue(fast, readFileSync(glue, 'utf8')) : fast);
copyFileSync(script, join(folder, 'scripts', 'initializer.js'));
const module = readFileSync(options.at(-1));
writeFileSync(join(folder, 'module.wasm'), withGlobals(module));
writeFileSync(join(folder, 'run.json'), JSON.stringify({ ...run, scripts: SCRIPTS, sources: guest }));
const folders = [[SCRIPTS, scripts], [guest, host]];
writevSync(openSync(option('-o='), 'w'), snapshot(module, { ...run, folders, heap: HEAP }));
