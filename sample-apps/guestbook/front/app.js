const NAMES = { js: 'JavaScript', go: 'Go', rust: 'Rust' };
const LANES = Object.keys(NAMES);
const EVERY = 3000;
const find = (selector) => document.querySelector(selector);
const shown = new Map();
let turn = 0;
let timer;

// Each read uses the next language, to show that all of them read the same rows.
async function read() {
  clearTimeout(timer);
  const lane = LANES[turn++ % LANES.length];
  const began = performance.now();
  try {
    const response = await fetch(`/${lane}/entries`);
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.title);
    const took = Math.max(1, Math.round(performance.now() - began));
    show(answer);
    announce(find('#read'), lane, `read by ${NAMES[lane]} in ${took} ms`);
  } catch (error) {
    announce(find('#read'), lane, `${NAMES[lane]} does not answer: ${error.message}`);
  }
  timer = setTimeout(read, document.hidden ? EVERY * 10 : EVERY);
}

function announce(element, lane, text) {
  element.dataset.lane = lane;
  element.textContent = text;
}

function show(entries) {
  const list = find('#entries');
  const first = shown.size === 0;
  for (const entry of [...entries].reverse()) {
    let item = shown.get(entry.id);
    if (!item) {
      item = made(entry);
      item.classList.toggle('new', !first);
      shown.set(entry.id, item);
      list.prepend(item);
    }
    item.querySelector('.heart b').textContent = entry.hearts || '';
    item.querySelector('.heart').classList.toggle('given', entry.hearts > 0);
  }
  const ids = new Set(entries.map((entry) => entry.id));
  for (const [id, item] of shown) {
    if (ids.has(id)) continue;
    item.remove();
    shown.delete(id);
  }
  find('#count').textContent = entries.length === 1 ? '1 entry' : `${entries.length || 'No'} entries`;
  const bars = LANES.map((lane) => {
    const bar = document.createElement('i');
    bar.dataset.lane = lane;
    bar.style.flexGrow = entries.filter((entry) => entry.lane === lane).length;
    return bar;
  });
  find('#shares').replaceChildren(...bars);
}

function made(entry) {
  const item = find('#entry').content.cloneNode(true).querySelector('li');
  const when = new Date(entry.written_at);
  item.dataset.lane = entry.lane;
  item.querySelector('blockquote').textContent = entry.message;
  item.querySelector('strong').textContent = entry.author;
  item.querySelector('.lane').textContent = `written by ${NAMES[entry.lane]}`;
  item.querySelector('time').dateTime = entry.written_at;
  item.querySelector('time').textContent = when.toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
  item.querySelector('.heart').setAttribute('aria-label', `A heart for ${entry.author}`);
  item.querySelector('.heart').addEventListener('click', () => heart(entry.id));
  return item;
}

// The next language adds the heart, which is not always the language that wrote the entry.
async function heart(id) {
  const lane = LANES[turn % LANES.length];
  const response = await fetch(`/${lane}/entries/${id}/heart`, { method: 'POST' });
  if (response.ok) shown.get(id).querySelector('.heart b').textContent = (await response.json()).hearts;
  await read();
}

find('#sign').addEventListener('submit', async (event) => {
  event.preventDefault();
  const form = event.target;
  const { lane, ...entry } = Object.fromEntries(new FormData(form));
  const result = find('#result');
  try {
    const response = await fetch(`/${lane}/entries`, { method: 'POST', body: JSON.stringify(entry) });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.title);
    form.elements.message.value = '';
    turn = LANES.indexOf(lane) + 1;
    announce(result, lane, `${NAMES[lane]} wrote it; ${NAMES[LANES[turn % LANES.length]]} reads it next.`);
    await read();
  } catch (error) {
    announce(result, lane, `Not written: ${error.message}`);
  }
});

document.addEventListener('visibilitychange', () => document.hidden || read());
read();
