const KEPT = 40;
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
    if (meter.values.length > KEPT) meter.values.shift();
    const low = Math.min(...meter.values);
    const span = Math.max(1, Math.max(...meter.values) - low);
    const step = 120 / (KEPT - 1);
    const first = KEPT - meter.values.length;
    meter.line.setAttribute(
      'points',
      meter.values.map((v, i) => `${((first + i) * step).toFixed(1)},${(33 - ((v - low) / span) * 30).toFixed(1)}`).join(' '),
    );
  }
  beat.classList.remove('beating');
  void beat.offsetWidth;
  beat.classList.add('beating');
}

function tell(name, text) {
  state.dataset.state = name;
  state.textContent = text;
}

const answer = document.querySelector('#answer');
async function ask() {
  try {
    const response = await fetch('/api/now');
    answer.textContent = JSON.stringify(await response.json(), null, 2);
  } catch (error) {
    answer.textContent = `no answer: ${error.message}`;
  }
}
document.querySelector('#ask').addEventListener('click', ask);

// The browser reconnects by itself when a stream ends, which happens each 25 seconds and is not worth a
// word. It gives up on an answer that is not a stream, as long as the api is still being built: then ask again.
let silence;
function listen() {
  const source = new EventSource('/api/events');
  source.addEventListener('open', () => {
    clearTimeout(silence);
    silence = undefined;
    tell('live', 'live');
  });
  source.addEventListener('open', ask, { once: true });
  source.addEventListener('message', (event) => show(JSON.parse(event.data)));
  source.addEventListener('error', () => {
    silence ??= setTimeout(tell, 1500, 'lost', 'reconnecting…');
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 1000);
  });
}
listen();
