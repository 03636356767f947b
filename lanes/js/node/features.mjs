// What a bundle needs besides its modules, detected in its text: polyfills for APIs that the engine lacks, and lowered
// async functions for AsyncLocalStorage. Bundles that do not use them do not contain them.
import { join, resolve } from 'node:path';

/** Files in `compat/features`, by what text they define or replace. */
const FILES = {
  normalize: /["'`]NFK?[CD]["'`]|\.normalize\(\)/,
  urlpattern: /\bURLPattern\b/,
};
const ASYNC_SYNTAX = ['async-await', 'async-generator', 'for-await'];
const LOWER = 'lower';

/** Return the names of the features that a bundle needs; `result` is that of esbuild without any. */
export function featuresOf({ metafile, outputFiles }, { root, compat }) {
  const code = outputFiles.find(({ path }) => path.endsWith('.js')).text;
  const asyncHooks = join(compat, 'async_hooks.cjs');
  const lowers = Object.keys(metafile.inputs).some((path) => resolve(root, path) === asyncHooks);
  return [...Object.keys(FILES).filter((name) => FILES[name].test(code)), ...(lowers ? [LOWER] : [])];
}

/** Return the options of esbuild for features. */
export function featureOptions(features, compat) {
  const lowered = features.includes(LOWER) ? ASYNC_SYNTAX.map((name) => [name, false]) : [];
  return {
    inject: [...features.filter((name) => name in FILES).map((name) => join(compat, 'features', `${name}.js`)), join(compat, 'globals.js')],
    supported: { 'top-level-await': false, ...Object.fromEntries(lowered) },
  };
}
