// Messages of the library in the words of the command line: `--cwd` for the option `cwd`. PURE.

/** The flag of each option. */
export const flags: Record<string, string> = {
  cwd: '--cwd',
  env: '--env',
  idleTimeoutMs: '--idle',
  timeoutMs: '--timeout',
  memoryMaxBytes: '--memory',
  permission: '--permission',
  allow: '--allow',
  policy: '--policy',
  model: '--model',
  resume: '--resume',
  schema: '--schema',
  binary: '--binary',
  record: '--record',
  name: '--name',
  provider: 'PROVIDER',
  systemPrompt: '--system-prompt',
  images: '--image',
  cliTools: '--tool',
  mcpServers: '--mcp-servers',
  inheritEnv: '--inherit-env',
  toolIdleTimeoutMs: '--tool-idle',
  startTimeoutMs: '--start-timeout',
  killGraceMs: '--kill-grace',
  containment: '--containment',
  maxTurns: '--max-turns',
  maxTokens: '--max-tokens',
  maxCostUsd: '--max-cost',
  prices: '--prices',
  'retry.attempts': '--retries',
  'retry.baseDelayMs': '--retry-delay',
  'retry.maxDelayMs': '--max-retry-delay',
  'retry.afterTools': '--retry-after-tools',
  'retry.waitForResetMs': '--wait-for-reset',
  background: '--background',
  changes: '--changes',
  worktree: '--worktree',
  'worktree.base': '--base',
  'worktree.include': '--include',
  'worktree.setup': '--setup',
  'worktree.keep': '--keep',
  'worktree.dir': '--worktree-dir',
  extraArgs: '--extra-arg',
  redact: '--redact',
  maxRecordBytes: '--max-record',
  'provider.modes': '--mode LEVEL=ID',
  'provider.state': '--state',
  servers: '--servers',
  dir: '--dir',
  prefix: '--prefix',
  credentials: '--credentials',
  token: '--token',
  ca: '--ca',
  'sandbox.write': '--write',
  'sandbox.read': '--read',
  'sandbox.network': '--network',
  'sandbox.network.hosts': '--host',
  'sandbox.network.secrets': '--secret',
  'sandbox.sockets': '--socket',
  'sandbox.protect': '--protect',
  'sandbox.require.landlock': '--landlock',
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
