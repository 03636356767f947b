// node:os: those of a machine without anything to know.
const errno = { EACCES: 13, EADDRINUSE: 98, ECONNREFUSED: 111, ECONNRESET: 104, EEXIST: 17, EINVAL: 22, ENOENT: 2, EPERM: 1, EPIPE: 32, ETIMEDOUT: 110 };
const signals = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGKILL: 9, SIGTERM: 15 };

module.exports = {
  EOL: '\n',
  devNull: '/dev/null',
  constants: { errno, signals, priority: {}, dlopen: {}, UV_UDP_REUSEADDR: 4 },
  arch: () => 'wasm32',
  availableParallelism: () => 1,
  cpus: () => [{ model: 'svc', speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } }],
  endianness: () => 'LE',
  freemem: () => 0,
  getPriority: () => 0,
  homedir: () => '/',
  hostname: () => 'svc',
  loadavg: () => [0, 0, 0],
  machine: () => 'wasm32',
  networkInterfaces: () => ({}),
  platform: () => 'linux',
  release: () => '',
  setPriority() {},
  tmpdir: () => '/tmp',
  totalmem: () => 0,
  type: () => 'Linux',
  uptime: () => process.uptime(),
  userInfo: () => ({ username: 'svc', uid: 0, gid: 0, shell: null, homedir: '/' }),
  version: () => '',
};
