import adapter from './svc-adapter.js';

export default { kit: { adapter: adapter() } };
