const find = (selector) => document.querySelector(selector);
const PASSWORD = 'inbox-password';
const shown = new Map(); // Messages by their numbers.

async function call(method, path) {
  const authorization = `Bearer ${sessionStorage.getItem(PASSWORD) ?? ''}`;
  const response = await fetch(path, { method, headers: { authorization } });
  const answer = await response.json();
  if (!response.ok) {
    throw Object.assign(new Error([answer.title, answer.detail].filter(Boolean).join('. ')), { status: response.status });
  }
  return answer;
}

const show = (text, isError = false) => {
  find('#status').textContent = text;
  find('#status').classList.toggle('error', isError);
};

function card(message) {
  const item = find('#message').content.cloneNode(true).firstElementChild;
  const body = JSON.parse(message.body);
  // textContent, not innerHTML: a message can contain any characters.
  item.querySelector('strong').textContent = body?.type ?? message.id;
  const state = item.querySelector('span');
  state.textContent = message.state === 'waiting' && message.tries ? `waiting, try ${message.tries} failed` : message.state;
  state.className = message.state;
  item.querySelector('time').dateTime = message.received_at;
  item.querySelector('time').textContent = new Date(message.received_at).toLocaleString();
  item.querySelector('pre').textContent = `${message.id}\n${JSON.stringify(body, null, 2)}`;
  item.querySelector('.error').textContent = message.error ?? '';
  const button = item.querySelector('button');
  button.hidden = message.state !== 'failed';
  button.addEventListener('click', async () => {
    button.disabled = true;
    try {
      await call('PUT', `/api/messages/${encodeURIComponent(message.id)}`);
      await load();
    } catch (error) {
      show(error.message, true);
    }
  });
  return item;
}

function draw({ counts, reports }) {
  const list = find('#messages');
  const items = new Map([...list.children].map((item) => [item.dataset.version, item]));
  list.replaceChildren(
    ...[...shown.values()].sort((a, b) => b.number - a.number).map((message) => {
      const version = JSON.stringify(message);
      const item = items.get(version) ?? card(message); // An unchanged message stays open.
      item.dataset.version = version;
      return item;
    }),
  );
  show(`${counts.received} received · ${counts.waiting} waiting · ${counts.failed} failed`);
  find('#empty').hidden = shown.size > 0;
  find('#no-reports').hidden = reports.length > 0;
  find('#reports').hidden = reports.length === 0;
  find('#reports tbody').replaceChildren(
    ...reports.map((report) => {
      const row = document.createElement('tr');
      for (const value of [new Date(report.at).toLocaleString(), ...['received', 'done', 'failed', 'amount'].map((name) => report[name])]) {
        row.insertCell().textContent = value;
      }
      return row;
    }),
  );
}

async function load(before = '') {
  try {
    const answer = await call('GET', `/api/messages${before && `?before=${before}`}`);
    for (const message of answer.messages) shown.set(message.number, message);
    if (before || shown.size <= answer.messages.length) find('#older').hidden = !answer.more;
    find('#enter').hidden = true;
    find('#inbox').hidden = false;
    draw(answer);
    return true;
  } catch (error) {
    show(error.message, true);
    if (error.status === 401) {
      find('#enter').hidden = false;
      find('#inbox').hidden = true;
      if (!sessionStorage.getItem(PASSWORD)) show('');
      sessionStorage.removeItem(PASSWORD);
    }
    return false;
  }
}

find('#enter').addEventListener('submit', (event) => {
  event.preventDefault();
  sessionStorage.setItem(PASSWORD, find('#password').value);
  load();
});
find('#older').addEventListener('click', () => load(Math.min(...shown.keys())));

await load();
setInterval(() => {
  if (document.visibilityState === 'visible' && find('#enter').hidden) load();
}, 2000);
