// Runs cases on Node.js: node oracle.mjs UPSTREAM CASE... prints a line of JSON for each, {path, checks | error}.
process.on('unhandledRejection', () => {});
process.on('uncaughtException', () => {});
process.env.UPSTREAM = process.argv[2];

for (const path of process.argv.slice(3)) {
  let result;
  try {
    const { default: application } = await import(path);
    const response = await application.fetch(new Request('http://api.localhost/'), process.env);
    result = { checks: await response.json() };
  } catch (error) {
    result = { error: String(error) };
  }
  // A package may have replaced the console.
  process.stdout.write(JSON.stringify({ path, ...result }) + '\n');
}
process.exit();
