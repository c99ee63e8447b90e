// The table of host.spec.ts: what a host program does to its own environment, folder, timers, terminal and end. Each situation is a
// script that runs with `call` of child_process and with that of Sheepdog, and prints what came of it.

export interface Situation {
  name: string
  /** Body of an async function. It has `call`, `isSheepdog`, `fs`, `folder` (its own), and prints what it returns. */
  script: string
  /** A shell command that starts the host; `"$@"` is the host itself. */
  by?: string
  /** Typed into the terminal that the host then has, as soon as the program has printed "ready". */
  keys?: string
  /** The intended difference, where there is one: the behaviour here, and its reason. */
  differs?: { here: string; because: string }
}

const variables = `(await call('sh', ['-c', 'echo "$A-$B-\${SECRET-none}"'])).stdout`
const where = `const { stdout, status, problem } = await call('sh', ['-c', 'ls; pwd -P 2>/dev/null | sed "s|.*/||"']); return [stdout, status, problem]`
/** A second for a signal to come. A sleep in the background ignores the keys; one in the foreground dies of them or not, and the shell tells. */
const untilTold = `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.05 & wait; done`
const lives = `await call('sh', ['-c', 'trap "" HUP; echo $$ > pid; exec sleep 20'])`

export const situations: Situation[] = [
  // The environment.
  { name: 'a variable is set', script: `process.env.A = '1'; return ${variables}` },
  {
    name: 'a variable is deleted',
    script: `process.env.SECRET = 'x'; delete process.env.SECRET; return ${variables}`,
  },
  {
    name: '`process.env` is replaced by a copy, then changed',
    script: `process.env.SECRET = 'x'; process.env = { ...process.env }; process.env.A = '1'; delete process.env.SECRET; return ${variables}`,
  },
  {
    name: '`process.env` is replaced after the first call',
    script: `await call('true'); process.env = { PATH: process.env.PATH, A: '2' }; return ${variables}`,
  },
  {
    name: '`process.env` is a Proxy',
    script: `process.env.SECRET = 'x'; const own = process.env; process.env = new Proxy(own, {
      get: (target, name) => (name === 'A' ? 'proxied' : target[name]),
      ownKeys: (target) => [...Reflect.ownKeys(target).filter((name) => name !== 'SECRET'), 'A'],
      getOwnPropertyDescriptor: (target, name) => Reflect.getOwnPropertyDescriptor(target, name) ?? { value: '', enumerable: true, configurable: true },
    }); return ${variables}`,
  },
  {
    name: '`process.env` inherits from another object',
    script: `process.env = Object.create({ ...process.env, A: 'inherited' }); return ${variables}`,
  },
  {
    name: '`process.env` has values that are no strings',
    script: `process.env = { ...process.env, A: 7, B: null, SECRET: undefined }; return ${variables}`,
  },
  {
    name: '`process.env` has a getter',
    script: `const own = process.env; Object.defineProperty(process, 'env', { get: () => ({ ...own, A: 'got' }) }); return ${variables}`,
  },
  {
    name: 'an empty environment',
    script: `process.env = {}; return (await call('/usr/bin/env')).stdout.replace(/^SHEEPDOG_RUN=.*\\n/m, '')`,
  },
  {
    name: 'a worker with an environment of its own',
    script: `return inWorker({ env: { ...process.env, A: 'worker' } }, ${JSON.stringify(`return ${variables}`)})`,
  },
  {
    name: 'a worker that shares the environment',
    script: `return inWorker({ env: require('node:worker_threads').SHARE_ENV }, ${JSON.stringify(`process.env.A = 'shared'; return ${variables}`)})`,
  },
  {
    name: 'options `env` and the environment',
    script: `process.env.A = '1'; process.env.B = '2'; return (await call('sh', ['-c', 'echo $A-$B'], { env: { ...process.env, A: '3', B: undefined } })).stdout`,
  },
  {
    name: '`Object.prototype` has members with the names of options',
    script: `const evil = { cwd: '/nowhere', env: { A: 'evil' }, timeoutMs: 1, maxOutputBytes: 1, inheritEnv: false }
    Object.assign(Object.prototype, evil); const came = await call('sh', ['-c', 'sleep 0.1; echo "\${A-none}"; pwd | sed "s|.*/||" | grep -c nowhere']); for (const name in evil) delete Object.prototype[name]; return came`,
  },
  // The folder.
  {
    name: 'the folder was renamed',
    script: `fs.mkdirSync('a'); fs.writeFileSync('a/f', ''); process.chdir('a'); process.cwd(); fs.renameSync(folder + '/a', folder + '/b'); ${where}`,
  },
  {
    name: 'the folder was renamed, and another has its name',
    script: `fs.mkdirSync('a'); fs.writeFileSync('a/own', ''); process.chdir('a'); process.cwd(); fs.renameSync(folder + '/a', folder + '/b'); fs.mkdirSync(folder + '/a'); ${where}`,
  },
  {
    name: 'the folder was deleted',
    script: `fs.mkdirSync('a'); process.chdir('a'); process.cwd(); fs.rmdirSync(folder + '/a'); ${where}`,
  },
  {
    name: 'a relative `cwd` in a renamed folder',
    script: `fs.mkdirSync('a/sub', { recursive: true }); process.chdir('a'); process.cwd(); fs.renameSync(folder + '/a', folder + '/b'); const { stdout } = await call('pwd', ['-P'], { cwd: 'sub' }); return stdout.slice(-6)`,
  },
  {
    name: 'a relative program in a renamed folder',
    script: `fs.mkdirSync('a'); fs.writeFileSync('a/tool', '#!/bin/sh\\necho "ran $0"', { mode: 0o755 }); process.chdir('a'); process.cwd(); fs.renameSync(folder + '/a', folder + '/b'); return call('./tool')`,
  },
  {
    name: 'the folder is changed right after the call',
    script: `fs.mkdirSync('a'); process.chdir('a'); const called = call('pwd', ['-P']); process.chdir('/'); return (await called).stdout.slice(-3)`,
  },
  {
    name: 'a folder above may not be passed',
    by: `mkdir -p closed/in; chmod 777 closed/in; cd closed/in; chmod 700 ..; exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"`,
    script: `const { stdout, status, problem } = await call('sh', ['-c', 'echo > f; ls']); return [stdout, status, problem]`,
  },
  {
    name: 'the name of the folder is no UTF-8',
    by: `d=$(printf 'a\\377b'); mkdir "$d"; cd "$d"; touch f; exec "$@"`,
    script: `return (await call('ls')).stdout`,
  },
  {
    name: 'the folder is deeper than a path can say',
    script: `const name = 'd'.repeat(250); for (let i = 0; i < 20; i++) { fs.mkdirSync(name); process.chdir(name) } fs.writeFileSync('f', ''); return (await call('ls')).stdout`,
  },
  { name: '`cwd` does not exist', script: `return call('ls', [], { cwd: 'nowhere' })` },
  { name: 'the program does not exist', script: `return call('./nowhere')` },
  // Timers and stacks.
  {
    name: 'timers of node:test, and input from a generator',
    script: `
    const { mock } = require('node:test'); require(process.env.HOST_PACKAGE); mock.timers.enable()
    function* lines() { for (let i = 0; i < 5; i++) { const until = process.hrtime.bigint() + 6_000_000n; while (process.hrtime.bigint() < until); yield i + '\\n' } }
    return (await call('cat', [], { input: lines() })).stdout`,
  },
  {
    name: '`Error.prepareStackTrace` returns no text',
    script: `Error.prepareStackTrace = (_, sites) => sites; return call('./nowhere')`,
  },
  {
    name: '`Error.prepareStackTrace` throws',
    script: `Error.prepareStackTrace = () => { throw new Error('no stack') }; return call('./nowhere')`,
  },
  { name: '`Error.stackTraceLimit` is 0', script: `Error.stackTraceLimit = 0; return call('./nowhere')` },
  // Attributes that a process inherits.
  {
    name: 'the umask',
    script: `process.umask(0o027); return (await call('sh', ['-c', 'umask; : > f; stat -c %a f'])).stdout`,
  },
  {
    name: 'limits of descriptors, files and stack',
    by: `ulimit -n 200; ulimit -c 0; ulimit -s 4096; exec "$@"`,
    script: `return (await call('sh', ['-c', 'ulimit -n; ulimit -c; ulimit -s'])).stdout`,
  },
  { name: 'the priority', by: `exec nice -n 5 "$@"`, script: `return (await call('nice')).stdout` },
  {
    name: 'the locale',
    by: `exec env LC_ALL=C.UTF-8 TZ=Asia/Kolkata "$@"`,
    script: `return (await call('sh', ['-c', 'locale charmap; date -d @0 +%H:%M'])).stdout`,
  },
  {
    name: 'an open descriptor of the parent',
    by: `exec 9</etc/passwd; exec "$@"`,
    script: `return (await call('sh', ['-c', 'ls /proc/self/fd | grep -c "^9$"'])).stdout`,
  },
  {
    name: 'stdin is closed',
    by: `exec <&-; exec "$@"`,
    script: `return (await call('sh', ['-c', 'cat; echo $?'])).stdout`,
  },
  {
    name: 'signals that the parent ignores',
    by: `trap '' USR1 PIPE HUP; exec "$@"`,
    script: `return (await call('sh', ['-c', 'grep SigIgn /proc/self/status'])).stdout`,
  },
  {
    name: 'the process group',
    script: `return (await call('sh', ['-c', 'test $(ps -o pgid= $$) -eq $$ && echo own || echo shared'])).stdout`,
    differs: {
      here: 'The program leads a group and a session of its own.',
      because: 'A signal ends all of it, and none for the host reaches it.',
    },
  },
  {
    name: 'a program is ended by a real-time signal',
    script: `return (await call('sh', ['-c', 'kill -34 $$'])).status`,
    differs: {
      here: 'The result names the signal: "SIG34".',
      because: 'An end by a signal is no success; Node.js has no name for it, and reports status 0.',
    },
  },
  // The terminal.
  {
    name: 'Ctrl-C on a lent terminal',
    keys: '\u0003',
    script: `process.on('SIGINT', () => {}); return call('sh', ['-c', 'trap "echo cleaned; exit 3" INT; echo ready; ${untilTold}'], { stdio: 'inherit' })`,
  },
  {
    name: 'Ctrl-\\ on a lent terminal',
    keys: '\u001c',
    script: `process.on('SIGQUIT', () => {}); return call('sh', ['-c', 'trap "echo cleaned; exit 4" QUIT; echo ready; ${untilTold}'], { stdio: 'inherit' })`,
  },
  {
    name: 'a line that is typed on a lent terminal',
    keys: 'hello\r',
    script: `return call('sh', ['-c', 'echo ready; read line; echo "got $line"'], { stdio: 'inherit' })`,
  },
  {
    name: '/dev/tty of a lent terminal',
    keys: 'secret\r',
    script: `return call('sh', ['-c', 'echo ready; read line < /dev/tty; echo "got $line"'], { stdio: 'inherit' })`,
  },
  {
    name: 'Ctrl-Z on a lent terminal where nobody could continue it',
    keys: '\u001ago on\r',
    script: `return call('sh', ['-c', 'echo ready; read line; echo "got $line"'], { stdio: 'inherit' })`,
  },
  {
    name: 'the group and the session on a lent terminal',
    keys: '\r',
    script: `return call('sh', ['-c', 'echo ready; read line; set -- $(ps -o pgid=,sid=,tpgid= $$); test $1 -eq $3 && test $2 -ne $$ && echo foreground'], { stdio: 'inherit' })`,
  },
  {
    name: 'stdin lent alone, and a program that asks its terminal',
    keys: 'secret\r',
    script: `const lent = isSheepdog ? { stdin: 'inherit' } : { stdio: ['inherit', 'pipe', 'pipe'] }; return (await call('sh', ['-c', 'echo ready > /dev/tty; read line < /dev/tty; echo "got $line"'], lent)).stdout.toUpperCase()`,
  },
  // The end of the host.
  {
    name: 'the host calls `process.exit()`',
    script: `${lives.replace('await ', 'void ')}; await begun(); process.exit(0)`,
    differs: {
      here: 'The program ends with the host.',
      because: 'Nothing stays behind that nobody asked for.',
    },
  },
  {
    name: 'the host gets SIGTERM',
    script: `${lives.replace('await ', 'void ')}; await begun(); process.kill(process.pid, 'SIGTERM')`,
    differs: {
      here: 'The program ends with the host.',
      because: 'Nothing stays behind that nobody asked for.',
    },
  },
  {
    name: 'the host gets SIGKILL',
    script: `${lives.replace('await ', 'void ')}; await begun(); process.kill(process.pid, 'SIGKILL')`,
    differs: {
      here: 'The program ends with the host.',
      because: 'Nothing stays behind that nobody asked for.',
    },
  },
  {
    name: 'an error of the host that nobody catches',
    script: `${lives.replace('await ', 'void ')}; await begun(); setImmediate(() => { throw new Error('on purpose') })`,
    differs: {
      here: 'The program ends with the host.',
      because: 'Nothing stays behind that nobody asked for.',
    },
  },
]
