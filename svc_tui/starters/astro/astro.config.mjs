import { defineConfig } from 'astro/config';
import svc from './svc-adapter.mjs';

export default defineConfig({ output: 'server', adapter: svc() });
