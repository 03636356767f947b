const find = (selector) => document.querySelector(selector);
const list = find('#notes');

// All requests go to the page's own origin: svc.toml mounts the resource "api" at /api/*, so no CORS is needed.
async function call(method, path, body) {
  const response = await fetch(path, { method, body: body && JSON.stringify(body) });
  if (response.status === 204) return null;
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.detail ?? answer.title), { status: response.status });
  return answer;
}

function card(note) {
  const item = find('#note').content.cloneNode(true).firstElementChild;
  // textContent, not innerHTML: a note can contain any characters.
  item.querySelector('p').textContent = note.text;
  const time = item.querySelector('time');
  time.dateTime = note.created_at;
  time.textContent = new Date(note.created_at).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
  item.querySelector('button').setAttribute('aria-label', `Delete the note: ${note.text.slice(0, 40)}`);
  item.querySelector('button').addEventListener('click', () =>
    attempt(async () => {
      await call('DELETE', `/api/notes/${note.id}`);
      item.remove();
    }),
  );
  return item;
}

function showCount() {
  const count = list.childElementCount;
  find('#status').textContent = count === 1 ? '1 note' : `${count || 'No'} notes`;
  find('#status').classList.remove('error');
}

async function attempt(action) {
  try {
    await action();
    showCount();
  } catch (error) {
    find('#status').textContent = error.message;
    find('#status').classList.add('error');
  }
}

async function load() {
  try {
    list.replaceChildren(...(await call('GET', '/api/notes')).map(card));
    showCount();
  } catch (error) {
    find('#status').textContent = error.status === 503 ? 'Waiting for the API to be built…' : error.message;
    if (error.status === 503) setTimeout(load, 1000);
  }
}

find('#add').addEventListener('submit', (event) => {
  event.preventDefault();
  const form = event.target;
  attempt(async () => {
    list.prepend(card(await call('POST', '/api/notes', { text: form.elements.text.value })));
    form.reset();
    form.elements.text.focus();
  });
});

find('#text').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) find('#add').requestSubmit();
});

load();
