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

const source = new EventSource('/api/events');
source.addEventListener('open', () => tell('live', 'live'));
source.addEventListener('error', () => tell('lost', 'reconnecting…'));
source.addEventListener('message', (event) => show(JSON.parse(event.data)));

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
ask();
