// Files that a package has for Node.js instead of those for browsers that need a page, and packages that are absent.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isAbsolute, join, resolve } from 'node:path';

/** What only a page has. Files that ask whether it is there, with `typeof`, work without it. */
const PAGE = /\b(DOMParser|XMLHttpRequest|document)\b(?=[.;()[\]?])/;
const PACKAGE = /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/;
const known = new Map();

/** Return the texts below keys `browser` of a package.json: of `browser` itself, and of `exports`. */
function browserFiles(value, chosen = false) {
  if (typeof value === 'string') return chosen ? [value] : [];
  return Object.entries(value ?? {}).flatMap(([key, each]) => browserFiles(each, chosen || key === 'browser'));
}

function needsPage(file) {
  const text = readFileSync(file, 'utf8'), name = PAGE.exec(text)?.[1];
  if (!name || new RegExp(`typeof (?:\\w+\\.)?${name}\\b`).test(text)) return false;
  const [folder] = PACKAGE.exec(file), manifest = join(folder, 'package.json');
  const { browser, exports } = existsSync(manifest) ? JSON.parse(readFileSync(manifest)) : {};
  // Paths of a package.json may lack the extension, or the name of the index file of a folder.
  const stem = (path) => resolve(folder, path).replace(/([\\/]index)?\.[cm]?[jt]sx?$/, '');
  return browserFiles({ browser, exports }).some((path) => stem(path) === stem(file));
}

/** Return the folders of packages whose files for browsers need a page; `result` is that of esbuild. */
export function packagesWithPage({ metafile: { inputs }, outputFiles }, { root }) {
  if (!outputFiles.some(({ path, text }) => path.endsWith('.js') && PAGE.test(text))) return [];
  // Others have a prefix, such as `(disabled):`.
  const paths = Object.entries(inputs).filter(([path]) => !path.includes(':'));
  const files = paths.map(([path, { bytes }]) => [resolve(root, path), bytes]).filter(([file]) => PACKAGE.test(file));
  const needing = files.filter(([file, bytes]) => {
    const key = `${file} ${bytes}`;
    if (!known.has(key)) known.set(key, needsPage(file));
    return known.get(key);
  });
  return [...new Set(needing.map(([file]) => PACKAGE.exec(file)[0]))];
}

/** Return the esbuild plugin that takes the files for Node.js of packages. */
export function withoutPage(folders) {
  const isIn = (file) => folders.includes(PACKAGE.exec(file)?.[0]);
  return {
    name: 'svc-without-page',
    setup(build) {
      build.onResolve({ filter: /.*/ }, async ({ path, importer, kind, resolveDir, namespace, pluginData }) => {
        if (namespace !== 'file' || pluginData === 'svc-again') return undefined;
        if (!isIn(importer)) {
          const { path: found } = await build.resolve(path, { importer, kind, resolveDir, pluginData: 'svc-again' });
          if (!isIn(found)) return undefined;
        }
        try {
          const file = createRequire(join(resolveDir, 'index.js')).resolve(path);
          return isAbsolute(file) ? { path: file } : undefined; // not the name of a module of Node.js
        } catch {
          return undefined;
        }
      });
    },
  };
}

/** Return the names that an error of esbuild says are absent and that packages ask for. */
export function absentIn({ errors = [] }) {
  const ours = errors.filter(({ location }) => PACKAGE.test(location?.file ?? ''));
  return ours.map(({ text }) => /^Could not resolve "([^"]+)"/.exec(text)?.[1]).filter(Boolean);
}

/** Return the esbuild plugin that has require() and import() of absent names in packages throw when they run. */
export function withAbsent(names) {
  return {
    name: 'svc-absent',
    setup(build) {
      build.onResolve({ filter: /.*/ }, ({ path, importer, kind }) =>
        names.includes(path) && kind !== 'import-statement' && PACKAGE.test(importer) ? { path, namespace: 'svc-absent' } : undefined);
      build.onLoad({ filter: /.*/, namespace: 'svc-absent' }, ({ path }) => {
        const text = `Cannot find the package ${JSON.stringify(path)}, which another package requires: install it with npm`;
        return { contents: `throw Object.assign(new Error(${JSON.stringify(text)}), { code: 'MODULE_NOT_FOUND' });` };
      });
    },
  };
}
