// Options of other runners (child_process, execa, zx, Bun), and what to use in their place. PURE.

const always = 'is what happens anyway: the program and its tree end with this process'

/** The end of a message that refuses an option of this name. */
export const inTheirPlace: Record<string, string> = {
  shell: "to have a shell read the command, run it as run('sh', ['-c', command])",
  timeout: 'use `timeoutMs`; `idleTimeoutMs` ends a program that is silent',
  killSignal:
    '`kill(signal)` sends another signal; on a timeout and an abort it is SIGTERM, then SIGKILL after `killGraceMs`',
  forceKillAfterDelay: 'use `killGraceMs`',
  cancelSignal: 'use `signal`, an AbortSignal',
  gracefulCancel: 'use `signal`: an abort sends SIGTERM, and SIGKILL after `killGraceMs`',
  abortSignal: 'use `signal`',
  maxBuffer: 'use `maxOutputBytes`: more output is left out of the result, and the program goes on',
  stripFinalNewline: 'use `trim: true`; by default the last line end is kept',
  all: '`lines()` has both streams in the order in which they came, and `pty` makes them one',
  lines: 'iterate: `for await (const { text } of spawn(...))`',
  buffer: 'the result has `stdout` and `stderr` always; `detachOutput()` leaves the rest to it',
  detached:
    "use `strays: 'keep'` for what is to outlive the command; a program has a process group of its own always",
  cleanup: always,
  killDescendants: always,
  stdout:
    '`stdio: "inherit"` passes all three on, `echo: "stdout"` shows stdout and keeps it, `saveOutput()` writes it to a file',
  stderr:
    '`stdio: "inherit"` passes all three on, `echo: "stderr"` shows stderr and keeps it, `saveOutput()` writes it to a file',
  inputFile: 'use `input: { file }`',
  localDir: 'use `preferLocal: folder`',
  extendEnv: 'use `inheritEnv`',
  verbose: '`echo: true` shows the output, the variable SHEEPDOG_LOG what was decided',
  serialization: 'there is no IPC channel: use stdin and stdout, `json()` reads objects',
  ipc: 'there is no IPC channel: use stdin and stdout, `json()` reads objects',
  ipcInput: 'there is no IPC channel: use `input`',
  node: "run it as run(process.execPath, ['script.js'])",
  nodePath: "run it as run(process.execPath, ['script.js'])",
  nodeOptions: "run it as run(process.execPath, [...options, 'script.js'])",
  execPath: "run it as run(process.execPath, ['script.js'])",
  argv0: 'the program is called by the name that is given as the command',
  uid: "start it by another program: run('setpriv', ['--reuid', user, command])",
  gid: "start it by another program: run('setpriv', ['--regid', group, command])",
  windowsHide: 'no window is shown',
  nothrow: 'leave it out: a failure rejects only with `reject: true`',
  quiet: 'leave it out: nothing is shown without `echo`',
}
