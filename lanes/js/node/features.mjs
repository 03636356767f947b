// What a bundle needs besides its modules, detected in its text: polyfills for APIs that the engine lacks, and lowered
// async functions for AsyncLocalStorage and unhandled rejections. Bundles that do not use them do not contain them.
import { join, resolve } from 'node:path';
import { intlData, intlLocales, intlUses } from './intl_data.mjs';

/** A text that lists content codings with `br`, as the value of accept-encoding. */
const CODING = '[\\w*-]+(?:;q=[\\d.]+)?';
const BR = new RegExp(`["'\`](?:${CODING}, *)*br(?:;q=[\\d.]+)?(?:, *${CODING})*["'\`]`);
const matches = (pattern) => (code) => pattern.test(code);
/** Files in `compat/features`, by what text they define or replace. */
const FILES = {
  brotli: (code) => /["'`]brotli["'`]/.test(code) || (/accept-encoding/i.test(code) && BR.test(code)),
  globals: matches(/\b(?:Buffer|(?:clear|set)Immediate)\b/),
  normalize: matches(/["'`]NFK?[CD]["'`]|\.normalize\(\)/),
  rejections: matches(/\b(?:on)?(?:unhandledrejection|rejectionhandled)\b/),
  urlpattern: matches(/\bURLPattern\b/),
};
const ASYNC_SYNTAX = ['async-await', 'async-generator', 'for-await'];

/** Return the features that a bundle needs; `result` is that of esbuild without any. `names` is empty for none. */
export function featuresOf({ metafile, outputFiles }, { root, compat }) {
  const code = outputFiles.find(({ path }) => path.endsWith('.js')).text;
  const asyncHooks = join(compat, 'async_hooks.cjs');
  const uses = intlUses(code);
  const intl = uses.length ? { uses, locales: intlLocales(code) } : undefined;
  const files = [...Object.keys(FILES).filter((name) => FILES[name](code)), ...(intl ? ['intl'] : [])];
  const lower = files.includes('rejections') || Object.keys(metafile.inputs).some((path) => resolve(root, path) === asyncHooks);
  return { files, lower, intl, any: lower || files.length > 0 };
}

/** Return the options of esbuild for features. */
export function featureOptions({ files = [], lower = false } = {}, compat) {
  const lowered = lower ? ASYNC_SYNTAX.map((name) => [name, false]) : [];
  return {
    inject: files.map((name) => join(compat, 'features', `${name}.js`)),
    // import() of a computed name becomes a function that rejects. The engine would end the program.
    supported: { 'dynamic-import': false, 'top-level-await': false, ...Object.fromEntries(lowered) },
  };
}

/** Return the esbuild plugin that resolves the packages of Intl, which are in `folder`. */
export function intlPackages({ intl }, folder) {
  return {
    name: 'svc-intl',
    setup(build) {
      build.onResolve({ filter: /^svc:intl-data$/ }, ({ path }) => ({ path, namespace: 'svc-intl' }));
      build.onLoad({ filter: /.*/, namespace: 'svc-intl' }, () => ({
        contents: intlData(folder, intl.uses, intl.locales), loader: 'js', resolveDir: folder,
      }));
    },
  };
}
