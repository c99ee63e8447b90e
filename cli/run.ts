// sheepdog run: any program under watch.
import { parseArguments, parseDuration, parseSize, parseVariables, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { recordOptions } from './record'
import { sandboxOptions, toSandbox } from './sandbox'
import { watch } from './watch'

export const summary = 'watch any program: it never hangs, and leaves nothing behind'

export const runsProgram = true

export const forms = ['[options] -- COMMAND [ARGUMENT ...]']

export const about = `
Runs a program and passes its output through, line by line. On a terminal a live line shows how long it has been
running and how long it has been silent. When it is silent for too long, takes too long, or you press Ctrl-C, the
program and everything it started is ended.`

export const operands = [{ name: 'COMMAND', fits: 'program' }] as const

export const options = {
  idle: { type: 'string', value: 'DURATION', help: 'end it after so long without any output (default 120s)' },
  timeout: { type: 'string', value: 'DURATION', help: 'end it after so long in any case (default 30m)' },
  cwd: { type: 'string', value: 'FOLDER', fits: 'folder', help: 'where it works (default: here)' },
  env: {
    type: 'string',
    multiple: true,
    value: 'NAME=VALUE',
    help: 'a variable of its environment, besides those of here (may be given again)',
  },
  memory: {
    type: 'string',
    value: 'SIZE',
    help: 'memory of it and all it starts: 512M, 4G; needs a cgroup, else nothing is started',
  },
  pty: {
    type: 'boolean',
    help: 'a terminal of its own, for programs that buffer, or refuse, without one; what is typed goes to it',
  },
  ...sandboxOptions,
  ...recordOptions,
  quiet: { type: 'boolean', short: 'q', help: "nothing but the program's own output" },
  json: { type: 'boolean', help: 'print JSON: one line for each line of output, and one for the result' },
} as const satisfies OptionTable

export const notes = `
Durations: 120s, 30m, 1.5h, 500ms, a plain number of seconds, or off.

Exit status: the program's own; 124 it took too long; 125 it was silent for too long; 126 it can't be executed;
127 it was not found; 128+N it was ended by signal N; 1 anything else. After Ctrl-C sheepdog is ended by SIGINT, as
other programs are, so that a shell's loop stops.

Standard input is the program's where it is a pipe or a file, else it is empty; with --pty what is typed goes to it,
Ctrl-C too. A second Ctrl-C kills at once.`

export const examples = [
  'sheepdog run -- npm test',
  'sheepdog run --idle 5m --timeout 2h -- codex exec "fix the build"',
  'git diff | sheepdog run -- codex exec -',
  'sheepdog run --write . --network none -- npm test',
  `sheepdog run --json -- make | jq -r 'select(.type == "line") | .text'`,
]

export async function run(args: string[]): Promise<Ending> {
  const { values, command } = parseArguments(args, options, { commandFollows: true })
  const [program, ...rest] = command ?? []
  if (!program) throw new UsageError('which program? For example: sheepdog run -- npm test')
  const { status, interrupt } = await watch(program, rest, {
    idleTimeoutMs: values.idle === undefined ? undefined : parseDuration('--idle', values.idle),
    timeoutMs: values.timeout === undefined ? undefined : parseDuration('--timeout', values.timeout),
    cwd: values.cwd,
    env: values.env && parseVariables('--env', values.env),
    memoryMaxBytes: values.memory === undefined ? undefined : parseSize('--memory', values.memory),
    pty: values.pty,
    quiet: values.quiet,
    json: values.json,
    sandbox: toSandbox(values),
    record: values.record,
    name: values.name,
  })
  return interrupt ?? status
}
