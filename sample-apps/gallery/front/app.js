const find = (selector) => document.querySelector(selector);
const PASSWORD = 'gallery-password';
const shown = new Map(); // Items by their ids.
let timer;

async function call(method, path, body) {
  const headers = method === 'GET' ? {} : { authorization: `Bearer ${find('#password').value}` };
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  const answer = response.status === 204 ? null : await response.json();
  if (!response.ok) throw new Error(answer.detail ?? answer.title);
  return answer;
}

function show(text, isError = false) {
  find('#status').textContent = text;
  find('#status').classList.toggle('error', isError);
}

const megabytes = (size) => `${(size / 1e6).toFixed(size < 1e6 ? 2 : 1)} MB`;

// fetch has no progress of uploads; XMLHttpRequest has.
function put(url, file, onProgress, signal) {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open('PUT', url);
    request.setRequestHeader('content-type', file.type);
    request.upload.addEventListener('progress', ({ loaded, total }) => onProgress(loaded / total));
    request.addEventListener('load', () => {
      if (request.status < 400) done();
      else fail(new Error(JSON.parse(request.responseText || '{}').detail ?? `status ${request.status}`));
    });
    request.addEventListener('error', () => fail(new Error('the connection was lost')));
    request.addEventListener('abort', () => fail(new Error('canceled')));
    signal.addEventListener('abort', () => request.abort());
    request.send(file);
  });
}

async function upload(file) {
  const row = find('#upload').content.cloneNode(true).firstElementChild;
  const cancel = new AbortController();
  row.querySelector('span').textContent = file.name;
  row.querySelector('button').addEventListener('click', () => (cancel.signal.aborted || row.classList.contains('error') ? row.remove() : cancel.abort()));
  find('#uploads').append(row);
  try {
    const { id, url } = await call('POST', '/api/items', { name: file.name, type: file.type, size: file.size });
    const onProgress = (part) => {
      row.querySelector('progress').value = part;
      row.querySelector('output').textContent = `${Math.floor(part * 100)} %`;
    };
    await put(url, file, onProgress, cancel.signal);
    await call('POST', `/api/items/${id}`);
    row.remove();
    await load();
  } catch (error) {
    row.classList.add('error');
    row.querySelector('output').textContent = error.message;
    row.querySelector('button').textContent = 'Close';
  }
}

function view(item) {
  const source = `/api/items/${item.id}/original`;
  if (item.type.startsWith('video/')) {
    // The browser asks for ranges, so that it can seek without loading all of it.
    return Object.assign(document.createElement('video'), { src: source, controls: true, preload: 'metadata' });
  }
  if (item.state !== 'ready') return document.createTextNode(item.error ?? 'Making a smaller image…');
  const link = Object.assign(document.createElement('a'), { href: source });
  link.append(Object.assign(document.createElement('img'), { src: `/api/items/${item.id}/thumb`, alt: item.name, loading: 'lazy' }));
  return link;
}

function card(item) {
  const element = find('#item').content.cloneNode(true).firstElementChild;
  element.classList.toggle('error', item.state === 'failed');
  element.querySelector('.view').append(view(item));
  element.querySelector('p').textContent = item.name;
  const size = item.width ? ` · ${item.width} × ${item.height}` : '';
  element.querySelector('small').textContent = megabytes(item.size) + size;
  element.querySelector('button').addEventListener('click', async () => {
    try {
      await call('DELETE', `/api/items/${item.id}`);
      shown.delete(item.id);
      draw();
    } catch (error) {
      show(error.message, true);
    }
  });
  return element;
}

function draw() {
  const old = new Map([...find('#items').children].map((element) => [element.dataset.version, element]));
  const items = [...shown.values()].sort((a, b) => b.id - a.id);
  const elements = items.map((item) => {
    const version = JSON.stringify(item);
    const element = old.get(version) ?? card(item); // An unchanged video continues to play.
    element.dataset.version = version;
    return element;
  });
  for (const element of old.values()) if (!elements.includes(element)) element.remove();
  elements.forEach((element, at) => {
    if (find('#items').children[at] !== element) find('#items').insertBefore(element, find('#items').children[at] ?? null);
  });
  show(items.length === 0 ? 'Nothing yet: choose a file' : items.length === 1 ? '1 item' : `${items.length} items`);
}

async function load(before) {
  clearTimeout(timer);
  try {
    const { items, more } = await call('GET', `/api/items${before ? `?before=${before}` : ''}`);
    for (const item of items) shown.set(item.id, item);
    if (before || shown.size <= items.length) find('#older').hidden = !more;
    draw();
    if (items.some((item) => item.state === 'resizing')) timer = setTimeout(load, 1000);
  } catch (error) {
    show(error.message, true);
  }
}

find('#password').value = sessionStorage.getItem(PASSWORD) ?? '';
find('#password').addEventListener('change', () => sessionStorage.setItem(PASSWORD, find('#password').value));
find('#files').addEventListener('change', async () => {
  const chosen = [...find('#files').files];
  find('#files').value = '';
  for (const file of chosen) await upload(file);
});
find('#add').addEventListener('submit', (event) => event.preventDefault());
find('#older').addEventListener('click', () => load(Math.min(...shown.keys())));
load();
