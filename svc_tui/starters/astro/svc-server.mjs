import { App } from 'astro/app';

export function createExports(manifest) {
  const app = new App(manifest);
  const fetch = (request) =>
    app.render(request, { addCookieHeader: true, clientAddress: request.headers.get('x-forwarded-for') ?? '' });
  return { default: { fetch } };
}
