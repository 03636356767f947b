// linkedom
import { DOMParser, parseHTML } from 'linkedom';
import { checks } from '../checks.js';

export default checks({
  'document': () => {
    const { document } = parseHTML('<!doctype html><html><body><ul><li>a</li></ul></body></html>');
    const item = document.createElement('li');
    item.textContent = '<ü>';
    document.querySelector('ul').append(item);
    return [document.querySelectorAll('li').length, document.querySelector('ul').outerHTML];
  },
  'XML': () => new DOMParser().parseFromString('<a><b c="1"/></a>', 'text/xml').querySelector('b').getAttribute('c'),
});
