const form = document.querySelector('#enter');
const status = form.querySelector('output');

form.addEventListener('change', () => {
  document.querySelector('main').dataset.lane = form.elements.lane.value;
});

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const { lane, ...credentials } = Object.fromEntries(new FormData(form));
  const action = event.submitter?.value ?? 'log-in';
  status.textContent = '';
  form.inert = true;
  try {
    const response = await fetch(`/${lane}/${action}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(credentials),
    });
    if (response.ok) return location.assign(`/${lane}/home`);
    status.textContent = (await response.json()).title;
  } catch {
    status.textContent = 'The server does not answer';
  } finally {
    form.inert = false;
  }
});
