import { URLPattern } from 'urlpattern-polyfill/urlpattern';

Object.defineProperty(globalThis, 'URLPattern', { value: URLPattern, writable: true, configurable: true });
