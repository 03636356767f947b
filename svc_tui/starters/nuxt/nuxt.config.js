// build/public has the files for the browser. build/server renders pages: svc bundles it.
export default {
  compatibilityDate: '2025-11-01',
  devtools: { enabled: false },
  // This page is rendered once, by the build: it is a file.
  routeRules: { '/about': { prerender: true } },
  nitro: {
    preset: 'cloudflare-module',
    output: { dir: 'build', serverDir: 'build/server', publicDir: 'build/public' },
    minify: !process.env.SVC_BUILDER,
    prerender: { autoSubfolderIndex: false },
    // svc adds this module when it bundles the server.
    rollupConfig: { external: ['@svc/guest'] },
  },
};
