// Rendered once, by the build: the page is a file.
export const prerender = true;
