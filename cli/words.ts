// Messages of the library in the words of the command line: `--cwd` for the option `cwd`. PURE.

/** Options whose flag has the same name, but for the case. */
const ofOneName = `cwd env permission allow policy model resume schema binary record name systemPrompt mcpServers inheritEnv containment
  maxTurns maxTokens prices background changes redact worktree worktree.base worktree.include worktree.setup worktree.keep
  provider.state servers dir prefix credentials token ca sandbox.write sandbox.read sandbox.network sandbox.protect`

/** `--max-turns` of `maxTurns`, `--base` of `worktree.base`. */
const flagNamed = (option: string) =>
  `--${option.replace(/^.*\./, '').replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`

/** The flag of each option. */
export const flags: Record<string, string> = {
  ...Object.fromEntries(ofOneName.split(/\s+/).map((option) => [option, flagNamed(option)])),
  idleTimeoutMs: '--idle',
  timeoutMs: '--timeout',
  toolIdleTimeoutMs: '--tool-idle',
  startTimeoutMs: '--start-timeout',
  killGraceMs: '--kill-grace',
  memoryMaxBytes: '--memory',
  maxCostUsd: '--max-cost',
  maxRecordBytes: '--max-record',
  provider: 'PROVIDER',
  'provider.modes': '--mode LEVEL=ID',
  images: '--image',
  cliTools: '--tool',
  extraArgs: '--extra-arg',
  'retry.attempts': '--retries',
  'retry.baseDelayMs': '--retry-delay',
  'retry.maxDelayMs': '--max-retry-delay',
  'retry.afterTools': '--retry-after-tools',
  'retry.waitForResetMs': '--wait-for-reset',
  'worktree.dir': '--worktree-dir',
  'sandbox.network.hosts': '--host',
  'sandbox.network.secrets': '--secret',
  'sandbox.sockets': '--socket',
  'sandbox.require.landlock': '--landlock',
}

/** The options of the library that the values of flags state; `within`: those of an object, as "retry.". */
export function toOptions<Options>(values: object, within = ''): Partial<Options> {
  const given = new Map(Object.entries(values).map(([name, value]) => [`--${name}`, value as unknown]))
  const stated = Object.entries(flags)
    .filter(([path, flag]) => path.startsWith(within) && given.get(flag) !== undefined)
    .map(([path, flag]) => [path.slice(within.length), given.get(flag)] as const)
  return Object.fromEntries(stated.filter(([name]) => !name.includes('.'))) as Partial<Options>
}

/** The flag of an option. `serve` passes the options of an agent on within `harness`. */
function flagOf(name: string): string | undefined {
  return flags[name.replace(/^harness\./, '')]
}

/** The message as a user of the command knows its parts; numbers of the system's errors are left out. */
export function inCommandWords(message: string): string {
  return message
    .replace(/^([\w.]+)(\[\d+\])?(?=: )/, (whole, name: string) => flagOf(name) ?? whole)
    .replaceAll('`sandbox: "workspace"`', '--sandbox')
    .replace(/`([\w.]+)`/g, (whole, name: string) => flagOf(name) ?? whole)
    .replace(/ \(os error \d+\)/g, '')
    .replace('IO error: ', '')
}

/** The message with the name of the file or address that it is about. */
export function notReached(message: string, what: string): string {
  const words = inCommandWords(message)
  return words.includes(what) ? words : `${words} (${what})`
}

/** An address without what is secret in it. */
export function shownAddress(text: string): string {
  try {
    const url = new URL(text)
    return `${url.protocol}//${url.host}${url.pathname === '/' ? '' : url.pathname}`
  } catch {
    return text
  }
}
