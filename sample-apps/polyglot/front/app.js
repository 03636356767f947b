const CELLS = 50;
// A browser reads a response only after it has sent the request, so a large file is sent in slices that fit into the
// buffers in between: an echo stops while its response is not read.
const SLICE = 256 * 1024;
const NAMES = { js: 'JavaScript', go: 'Go', rust: 'Rust' };

class Lane {
  constructor(name) {
    this.name = name;
    const card = document.querySelector('#lane').content.cloneNode(true).querySelector('article');
    this.find = (selector) => card.querySelector(selector);
    card.dataset.lane = name;
    this.find('h2').textContent = `${NAMES[name]} · /${name}/*`;
    this.cells = Array.from({ length: CELLS }, () => document.createElement('i'));
    this.find('.ticks').append(...this.cells);
    this.find('[name=hello]').addEventListener('click', () => this.hello());
    this.find('[name=fail]').addEventListener('click', () => this.fail());
    document.querySelector('#lanes').append(card);
  }

  // The browser reconnects by itself when a stream ends, which happens every 25 seconds. It gives up on a
  // response that is not a stream, which is sent while the lane is being built: then connect again.
  listen() {
    const state = this.find('.clock span');
    const source = new EventSource(`/${this.name}/events`);
    let silence;
    source.addEventListener('open', () => {
      clearTimeout(silence);
      silence = undefined;
      state.textContent = 'live';
    });
    source.addEventListener('open', () => this.hello(), { once: true });
    source.addEventListener('message', (event) => this.tick(JSON.parse(event.data).n));
    source.addEventListener('error', () => {
      silence ??= setTimeout(() => (state.textContent = 'waiting for it …'), 1500);
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.listen(), 1000);
    });
  }

  tick(n) {
    this.find('.clock output').value = n;
    const filled = ((n - 1) % CELLS) + 1;
    this.cells.forEach((cell, i) => cell.classList.toggle('on', i < filled));
  }

  async hello() {
    const began = performance.now();
    try {
      const answer = await (await fetch(`/${this.name}/hello`)).json();
      const took = performance.now() - began;
      this.find('blockquote').textContent = `${answer.message ?? answer.title}.`;
      const runtime = answer.runtime === 'none' ? 'no runtime' : answer.runtime ?? answer.code;
      this.find('.details').textContent = `${runtime}, ${took.toFixed(0)} ms, request ${answer.request ?? answer.request_id}`;
    } catch (error) {
      this.find('.details').textContent = `no response: ${error.message}`;
    }
  }

  async fail() {
    const shown = this.find('pre');
    try {
      const response = await fetch(`/${this.name}/fail`);
      shown.textContent = JSON.stringify(await response.json(), null, 1);
    } catch (error) {
      shown.textContent = `no response: ${error.message}`;
    }
    shown.hidden = false;
  }

  async echo(file, digest) {
    const [bar, result] = [this.find('progress'), this.find('.echo p')];
    this.find('.echo').hidden = false;
    result.className = '';
    result.textContent = `${file.name} is being sent …`;
    bar.value = 0;
    try {
      const began = performance.now();
      const back = await this.through(file, (bytes) => (bar.value = file.size ? bytes / file.size : 1));
      const seconds = (performance.now() - began) / 1000;
      const same = (await sha256(back)) === (await digest);
      result.className = same ? 'same' : 'other';
      const equal = same ? `SHA-256 is the same, ${(await digest).slice(0, 12)}…` : 'SHA-256 differs';
      result.textContent = `${back.size.toLocaleString('en')} bytes in ${seconds.toFixed(1)} s, ${equal}`;
    } catch (error) {
      result.className = 'other';
      result.textContent = `${file.name} failed: ${error.message}`;
    }
  }

  /** Send a file and return the bytes of the response. */
  async through(file, report) {
    const parts = [];
    let received = 0;
    for (let at = 0; at === 0 || at < file.size; at += SLICE) {
      const body = file.slice(at, at + SLICE, 'application/octet-stream');
      const response = await fetch(`/${this.name}/echo`, { method: 'POST', body });
      if (!response.ok) throw new Error(`status ${response.status}`);
      const part = await response.blob();
      parts.push(part);
      report((received += part.size));
    }
    return new Blob(parts);
  }
}

async function sha256(blob) {
  const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', await blob.arrayBuffer()));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const lanes = Object.keys(NAMES).map((name) => new Lane(name));
for (const lane of lanes) lane.listen();

const drop = document.querySelector('#drop');
const input = drop.querySelector('input');

function send(file) {
  if (!file) return;
  const digest = sha256(file);
  for (const lane of lanes) lane.echo(file, digest);
}

input.addEventListener('change', () => {
  send(input.files[0]);
  input.value = '';
});
drop.addEventListener('dragover', (event) => {
  event.preventDefault();
  drop.classList.add('over');
});
drop.addEventListener('dragleave', () => drop.classList.remove('over'));
drop.addEventListener('drop', (event) => {
  event.preventDefault();
  drop.classList.remove('over');
  send(event.dataTransfer.files[0]);
});
