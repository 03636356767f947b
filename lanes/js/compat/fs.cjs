// node:fs: a file system without files.
const READS = ['access', 'lstat', 'open', 'opendir', 'readFile', 'readdir', 'readlink', 'realpath', 'stat'];
const constants = { F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024 };

function absent(call, path) {
  const text = `ENOENT: no such file or directory, ${call} '${path}': the js lane has no files; import the file, and the bundle contains it`;
  return Object.assign(new Error(text), { code: 'ENOENT', errno: -2, syscall: call, path: String(path) });
}

const has = { constants, promises: { constants }, existsSync: () => false };
for (const name of READS) {
  has[name] = (path, ...rest) => void queueMicrotask(() => rest.at(-1)(absent(name, path)));
  has[`${name}Sync`] = (path, options) => {
    if (options?.throwIfNoEntry === false) return undefined;
    throw absent(name, path);
  };
  has.promises[name] = (path) => Promise.reject(absent(name, path));
}
has.exists = (_path, done) => void queueMicrotask(() => done(false));
module.exports = has;
