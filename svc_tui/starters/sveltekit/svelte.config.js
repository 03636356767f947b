import adapter from './svc-adapter.js';

// In a program that builds repeatedly, SvelteKit names all versions alike, and pages do not find their data: so
// svc-build.mjs names each one.
export default { kit: { adapter: adapter(), version: { name: process.env.BUILD_ID } } };
