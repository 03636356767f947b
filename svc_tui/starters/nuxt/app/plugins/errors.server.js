// Nuxt prints no errors of pages.
export default defineNuxtPlugin((app) => app.hook('vue:error', (error) => console.error(error)));
