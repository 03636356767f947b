// Stands in for the module @svc/guest in Node.js, where the framework's build loads the server. svc bundles the real one.
function lacking(name) {
  return function () {
    throw new Error(`${name} of @svc/guest works in requests only: the build cannot prerender a page that uses it`);
  };
}
const namespace = (name) => new Proxy({}, { get: (_, key) => lacking(`${name}.${String(key)}`) });

export const [d1, files, jobs, log, password, tables] = ['d1', 'files', 'jobs', 'log', 'password', 'tables'].map(namespace);
export const [FilesError, eventStream, json, sleep, stream] = ['FilesError', 'eventStream', 'json', 'sleep', 'stream'].map(lacking);
