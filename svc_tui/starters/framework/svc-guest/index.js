// Stands in for the module @svc/guest in Node.js, where the framework's build loads the server. svc bundles the real one.
const lacking = () => {
  throw new Error('@svc/guest works in svc only: run `svc dev`');
};
const namespace = new Proxy({}, { get: () => lacking });

export const [d1, log, password, tables] = [namespace, namespace, namespace, namespace];
export const [eventStream, json, sleep, stream] = [lacking, lacking, lacking, lacking];
