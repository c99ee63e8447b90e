// sheepdog run: any program under watch.
import { parseArguments, parseDuration, UsageError } from './arguments'
import { recordOptions, recordUsage } from './record'
import { sandboxOptions, toSandbox } from './sandbox'
import { watch } from './watch'

export const summary = 'watch any program: it never hangs, and leaves nothing behind'

export const runsProgram = true

export const usage = `Usage: sheepdog run [options] -- COMMAND [ARGUMENT ...]

Runs a program and passes its output through, line by line. On a terminal a live line shows how
long it has been running and how long it has been silent. When it is silent for too long, takes too
long, or you press Ctrl-C, the program and everything it started is ended.

Options:
  --idle DURATION      end it after so long without any output (default 120s)
  --timeout DURATION   end it after so long in any case (default 30m)
  --sandbox            it and all it starts write nowhere but to /dev/null; the kernel holds that
  --write PATH         ... and below PATH (may be given again); implies --sandbox
  --network NAME       "none": ... and reach no network; or ports: 443,8080; implies --sandbox
${recordUsage}  --json               print JSON: one line for each line of output, and one for the result
  -h, --help           show this

Durations: 120s, 30m, 1.5h, 500ms, a plain number of seconds, or off.

Exit status: the program's own; 124 it took too long; 125 it was silent for too long; 126 it can't
be executed; 127 it was not found; 128+N it was ended by signal N (Ctrl-C: 130); 1 anything else.

The program's standard input is empty. A second Ctrl-C kills at once.

Examples:
  sheepdog run -- npm test
  sheepdog run --idle 5m --timeout 2h -- codex exec "fix the build"
  sheepdog run --write . --network none -- npm test
  sheepdog run --json -- make | jq -r 'select(.type == "line") | .text'
`

export async function run(args: string[]): Promise<number> {
  const { values, command } = parseArguments(
    args,
    {
      idle: { type: 'string' },
      timeout: { type: 'string' },
      json: { type: 'boolean' },
      ...sandboxOptions,
      ...recordOptions,
    },
    { commandFollows: true },
  )
  const [program, ...rest] = command ?? []
  if (!program) throw new UsageError('which program? For example: sheepdog run -- npm test')
  const { status } = await watch(program, rest, {
    idleTimeoutMs: values.idle === undefined ? undefined : parseDuration('--idle', values.idle),
    timeoutMs: values.timeout === undefined ? undefined : parseDuration('--timeout', values.timeout),
    json: values.json,
    sandbox: toSandbox(values),
    record: values.record,
    name: values.name,
  })
  return status
}
