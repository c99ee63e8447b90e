// The options of a turn on a command line: their table, and how they become `TurnOptions`. A test compares them with the library's.
import { variable } from '../lib/host'
import type { HarnessOptions, TurnOptions } from '../lib/index'
import { type ParsedArguments, parseNumber, UsageError } from './arguments'
import { commandOptions } from './agent_command'
import { checkoutOptions, toWorktree } from './checkout_options'
import {
  counted,
  environmentOption,
  folderOption,
  numbered,
  type OptionTable,
  setting,
  several,
  flag,
} from './command'
import { jsonFile, schemaOption } from './file'
import { recordOptions } from './record'
import { resetOptions } from './reset'
import { hostOptions, levelOptions, toAgentSandbox } from './sandbox'
import { toOptions } from './words'

export const turnOptions = {
  schema: schemaOption,
  resume: setting('ID', 'continue the session of an earlier turn, in the same folder'),
  model: setting('NAME', 'model that the agent uses'),
  'system-prompt': setting('TEXT', "instructions that are added to the CLI's own"),
  image: several('FILE', 'an image that belongs to the prompt; may be repeated'),
  ...levelOptions,
  ...hostOptions,
  ...commandOptions,
  plan: flag('the same as --permission plan'),
  tool: several('NAME', 'a tool of the CLI that it may use, and no other; may be repeated'),
  'mcp-servers': jsonFile<NonNullable<TurnOptions['mcpServers']>>(
    'JSON: [{ "name", "url" } or { "name", "command", "args" }], servers whose tools it may use',
  ),
  cwd: folderOption,
  env: environmentOption,
  'inherit-env': several(
    'NAME',
    'a variable that it inherits, and no other; may be repeated; "none": it inherits nothing',
  ),
  idle: setting('DURATION', 'kill it after this long without output (default 300s; 900s while a tool runs)'),
  'tool-idle': setting('DURATION', 'the same while a tool runs (default: that of --idle, else 900s)'),
  'start-timeout': setting(
    'DURATION',
    'kill it without any output after this long (default: that of --idle, else 60s)',
  ),
  timeout: setting('DURATION', 'stop an attempt after this long in total (default 30m)'),
  'kill-grace': setting('DURATION', 'time between SIGTERM and SIGKILL when it is stopped'),
  containment: setting('LEVEL', 'how its processes are held together: auto, group or strict (default auto)', [
    'auto',
    'group',
    'strict',
  ]),
  'max-turns': counted('at most so many model answers'),
  'max-tokens': counted('end it when it used more tokens than this'),
  'max-cost': {
    ...setting('DOLLARS', 'end it when it cost more than this'),
    read: (flag: string, text: string) => parseNumber(flag, text, 'a number', /^\d*\.?\d+$/),
  },
  prices: jsonFile<NonNullable<TurnOptions['prices']>>(
    'JSON: { "inputPerMillion", "outputPerMillion", "cachedPerMillion" }, prices for --max-cost',
  ),
  retries: numbered('attempts after one that failed for a passing reason (default 2)'),
  'retry-delay': setting('DURATION', 'pause after the first failure (default 1s)'),
  'max-retry-delay': setting('DURATION', 'longest pause between attempts (default 30s)'),
  'retry-after-tools': flag('also try again when a tool has run'),
  ...resetOptions,
  background: setting(
    'WORD',
    'work that still runs in the background at the end: wait for it, or leave it to be ended (default wait)',
    ['wait', 'leave'],
  ),
  binary: several('PROGRAM', "program in place of the agent's own; repeat it for leading arguments"),
  'extra-arg': several('ARGUMENT', 'an argument for the CLI, as in --extra-arg=--verbose; may be repeated'),
  redact: {
    ...several(
      'VARIABLE',
      'remove the value of this variable from events, results and records; may be repeated',
    ),
    read: (_: string, names: string[]) => names.map(secretOf),
  },
  changes: flag('tell what was changed in the git repository of its folder'),
  ...checkoutOptions,
  ...recordOptions,
  'max-record': setting('SIZE', 'keep at most so much of each stream in the record (default 256M)'),
} as const satisfies OptionTable

type Values = ParsedArguments<typeof turnOptions>['values']

/** The options of a turn, and those of the harness that runs it. */
export function toTurnOptions(values: Values): TurnOptions & Pick<HarnessOptions, 'binary'> {
  const inherited = values['inherit-env']
  return {
    toolIdleTimeoutMs: values.idle,
    startTimeoutMs: values.idle,
    ...toOptions<HarnessOptions>(values),
    inheritEnv: inherited?.join() === 'none' ? false : inherited,
    permission: levelOf(values),
    retry: retryOf(values),
    sandbox: toAgentSandbox(values),
    worktree: toWorktree(values),
  }
}

function retryOf({ retries, ...values }: Values): TurnOptions['retry'] {
  const retry = {
    ...toOptions<NonNullable<TurnOptions['retry']>>(values, 'retry.'),
    ...(retries !== undefined && { attempts: retries + 1 }),
  }
  return Object.keys(retry).length > 0 ? retry : undefined
}

function levelOf(values: Values): TurnOptions['permission'] {
  if (values.plan && values.permission !== undefined && values.permission !== 'plan')
    throw new UsageError(`--plan and --permission ${values.permission} contradict each other`)
  return (values.plan ? 'plan' : values.permission) as TurnOptions['permission']
}

/** A secret is never written on the command line, which other users can read. */
function secretOf(name: string): string {
  const value = variable(name)
  if (!value) throw new UsageError(`--redact: the variable ${name} is not set`)
  return value
}
