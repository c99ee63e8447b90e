// sheepdog run: any program under watch.
import { parseArguments, parseDuration, parseSize, parseVariables, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { recordOptions } from './record'
import { sandboxOptions, toSandbox } from './sandbox'
import { watch } from './watch'

export const summary = 'run any program: it cannot hang and leaves no process behind'

export const runsProgram = true

export const forms = ['[options] -- COMMAND [ARGUMENT ...]']

export const about = `
Runs a program and prints its output line by line. On a terminal a live line shows how long the program has been running
and how long it has been silent. The program and everything that it started is ended when it is silent for too long,
takes too long, or you press Ctrl-C.`

export const operands = [{ name: 'COMMAND', fits: 'program' }] as const

export const options = {
  idle: {
    type: 'string',
    value: 'DURATION',
    help: 'kill the program after this long without output (default 120s)',
  },
  timeout: {
    type: 'string',
    value: 'DURATION',
    help: 'end the program after this long in any case (default 30m)',
  },
  cwd: {
    type: 'string',
    value: 'FOLDER',
    fits: 'folder',
    help: 'working directory (default: the current one)',
  },
  env: {
    type: 'string',
    multiple: true,
    value: 'NAME=VALUE',
    help: 'set an environment variable; the others are inherited (repeatable)',
  },
  memory: {
    type: 'string',
    value: 'SIZE',
    help: 'memory limit of the whole process tree, such as 512M or 4G; needs a writable cgroup, otherwise nothing is started',
  },
  pty: {
    type: 'boolean',
    help: 'give the program a terminal, for programs that buffer their output or refuse to run without one; your input is typed into it',
  },
  ...sandboxOptions,
  ...recordOptions,
  quiet: { type: 'boolean', short: 'q', help: 'print only the output of the program' },
  json: { type: 'boolean', help: 'print one JSON line for each line of output, then one for the result' },
} as const satisfies OptionTable

export const notes = `
Durations: 120s, 30m, 1.5h, 500ms, a plain number of seconds, or off.

Exit status: the status of the program. 124: it took too long. 125: it was silent for too long. 126: it cannot be
executed. 127: it was not found. 128+N: signal N ended it. 1: any other failure. After Ctrl-C sheepdog ends itself by
SIGINT, so that a loop of the shell stops.

Standard input: the program reads it when it is a pipe or a file; otherwise its input is empty. With --pty your input,
also Ctrl-C, is typed into the program's terminal. A second Ctrl-C kills the program at once.`

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
