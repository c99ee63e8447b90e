// sheepdog run: any program under watch.
import { parseArguments, UsageError } from './arguments'
import { type Ending, environmentOption, folderOption, type OptionTable, setting, flag } from './command'
import { recordOptions } from './record'
import { hostOptions, sandboxOptions, toSandbox } from './sandbox'
import { watch, type WatchOptions } from './watch'
import { toOptions } from './words'

export const summary = 'run any program: it always ends and leaves no process behind'

export const runsProgram = true

export const forms = ['[options] -- COMMAND [ARGUMENT ...]']

export const about = `
Runs a program and passes its output through, line by line. On a terminal a live line shows how long the program has
been running and silent. The program and all its descendants are killed when it is silent for too long, takes too
long, or you press Ctrl-C.`

export const operands = [{ name: 'COMMAND', fits: 'program' }] as const

export const options = {
  idle: setting('DURATION', 'kill it after this long without output (default 120s)'),
  timeout: setting('DURATION', 'stop it after this long in total (default 30m)'),
  cwd: folderOption,
  env: environmentOption,
  memory: setting(
    'SIZE',
    'limit the memory of the whole tree: 512M, 4G; needs a cgroup, else nothing is started',
  ),
  pty: flag('give it a terminal, for programs that buffer or refuse to work without one; your keys go to it'),
  ...sandboxOptions,
  ...hostOptions,
  ...recordOptions,
  quiet: { type: 'boolean', short: 'q', help: "print only the program's output" },
  json: flag('print JSON lines: one for each line of output, and one for the result'),
} as const satisfies OptionTable

export const notes = `
Durations: 120s, 30m, 1.5h, 500ms, a plain number of seconds, or off.

Exit status: the program's own; 124 if it took too long; 125 if it was silent for too long; 126 if it can't be
executed; 127 if it was not found; 128+N if signal N ended it; 2 for a wrong command line; 1 for anything else. After Ctrl-C sheepdog ends
by SIGINT, so that a shell's loop stops.

The program gets stdin if stdin is a pipe or a file, else end of file. With --pty your keys go to it, Ctrl-C too.
A second Ctrl-C kills at once.`

export const examples = [
  'sheepdog run -- npm test',
  'sheepdog run --idle 5m --timeout 2h -- codex exec "fix the build"',
  'git diff | sheepdog run -- codex exec -',
  'sheepdog run --write . --network none -- npm test',
  'sheepdog run --write . --host registry.example.com -- npm install',
  `sheepdog run --json -- make | jq -r 'select(.type == "line") | .text'`,
]

export async function run(args: string[]): Promise<Ending> {
  const { values, command } = parseArguments(args, options, { commandFollows: true })
  const [program, ...rest] = command ?? []
  if (!program) throw new UsageError('which program? For example: sheepdog run -- npm test')
  const { status, interrupt } = await watch(program, rest, {
    ...toOptions<WatchOptions>(values),
    pty: values.pty,
    quiet: values.quiet,
    json: values.json,
    sandbox: toSandbox(values),
  })
  return interrupt ?? status
}
