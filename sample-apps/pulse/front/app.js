const SHOWN = 40;
const state = document.querySelector('#state');
const beat = document.querySelector('.beat');
const meters = Object.fromEntries(
  [...document.querySelectorAll('[data-meter]')].map((card) => [
    card.dataset.meter,
    { output: card.querySelector('output'), line: card.querySelector('polyline'), values: [] },
  ]),
);

function show(numbers) {
  for (const [name, meter] of Object.entries(meters)) {
    meter.output.value = numbers[name];
    meter.values.push(numbers[name]);
    if (meter.values.length > SHOWN) meter.values.shift();
    const low = Math.min(...meter.values);
    const span = Math.max(1, Math.max(...meter.values) - low);
    const step = 120 / (SHOWN - 1);
    const first = SHOWN - meter.values.length;
    meter.line.setAttribute(
      'points',
      meter.values.map((v, i) => `${((first + i) * step).toFixed(1)},${(33 - ((v - low) / span) * 30).toFixed(1)}`).join(' '),
    );
  }
  beat.classList.remove('beating');
  void beat.offsetWidth;
  beat.classList.add('beating');
}

function showState(name, text) {
  state.dataset.state = name;
  state.textContent = text;
}

const answer = document.querySelector('#answer');
async function ask() {
  try {
    const response = await fetch('/api/now');
    answer.textContent = JSON.stringify(await response.json(), null, 2);
  } catch (error) {
    answer.textContent = `no response: ${error.message}`;
  }
}
document.querySelector('#ask').addEventListener('click', ask);

// The browser reconnects by itself when a stream ends, which happens every 25 seconds. It gives up on a
// response that is not a stream, which is sent while the api is being built: then connect again.
let silence;
function listen() {
  const source = new EventSource('/api/events');
  source.addEventListener('open', () => {
    clearTimeout(silence);
    silence = undefined;
    showState('live', 'live');
  });
  source.addEventListener('open', ask, { once: true });
  source.addEventListener('message', (event) => show(JSON.parse(event.data)));
  source.addEventListener('error', () => {
    silence ??= setTimeout(showState, 1500, 'lost', 'reconnecting…');
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 1000);
  });
}
listen();
