// cloudflare:workers: the variables, and work after the response. Its classes are lacking.
module.exports = { env: process.env, waitUntil: (promise) => globalThis[Symbol.for('svc.context')].waitUntil(promise) };
