// The sign-in of each agent CLI, as far as `sheepdog doctor` can tell it without a call to a model: a key, or a file that holds one.
// PURE. A keychain of the system is not looked into, so that nothing found is no proof.
import { join } from 'node:path'
import type { ProviderName } from '../lib/index'

interface Place {
  /** Version that the tests run with. */
  tested: string
  /** Variables, each of which holds a key. */
  variables: readonly string[]
  /** The variable that moves the folder of the file, the folder in its place, the one in the home, and the file. */
  file?: readonly [variable: string, below: string, home: string, name: string]
  /** Text that the file contains only after a sign-in, for files that exist without one. */
  sign?: string
  /** How to sign in. */
  how: string
}

/** By the names of the harness. */
export const places: Readonly<Record<ProviderName, Place>> = {
  'claude-code': {
    tested: '2.1.330',
    variables: ['ANTHROPIC_API_KEY', 'ANTHROPIC_AUTH_TOKEN', 'CLAUDE_CODE_OAUTH_TOKEN'],
    file: ['CLAUDE_CONFIG_DIR', '', '.claude', '.credentials.json'],
    how: 'start claude and type /login',
  },
  codex: {
    tested: '0.169.0',
    variables: ['CODEX_API_KEY', 'OPENAI_API_KEY'],
    file: ['CODEX_HOME', '', '.codex', 'auth.json'],
    how: 'codex login',
  },
  gemini: {
    tested: '0.61.0',
    variables: ['GEMINI_API_KEY', 'GOOGLE_API_KEY'],
    file: ['GEMINI_CLI_HOME', '.gemini', '.gemini', 'oauth_creds.json'],
    how: 'start gemini and follow it',
  },
  opencode: {
    tested: '1.18.33',
    variables: ['OPENCODE_CONFIG_CONTENT', 'ANTHROPIC_API_KEY', 'OPENAI_API_KEY'],
    file: ['XDG_DATA_HOME', 'opencode', '.local/share/opencode', 'auth.json'],
    how: 'opencode auth login',
  },
  copilot: {
    tested: '1.0.102',
    variables: ['COPILOT_GITHUB_TOKEN', 'GH_TOKEN', 'GITHUB_TOKEN', 'COPILOT_PROVIDER_API_KEY'],
    file: ['COPILOT_HOME', '', '.copilot', 'config.json'],
    sign: '"login"',
    how: 'start copilot and type /login',
  },
  qwen: {
    tested: '0.24.4',
    variables: ['OPENAI_API_KEY', 'DASHSCOPE_API_KEY'],
    file: ['QWEN_HOME', '', '.qwen', 'oauth_creds.json'],
    how: 'start qwen and type /auth',
  },
  pi: {
    tested: '0.73.1',
    variables: ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'GEMINI_API_KEY'],
    file: ['PI_CODING_AGENT_DIR', '', '.pi/agent', 'auth.json'],
    how: 'start pi and type /login',
  },
  kimi: {
    tested: '2.1.0',
    variables: ['KIMI_API_KEY', 'KIMI_MODEL_API_KEY', 'KIMI_CODE_OAUTH_KEY'],
    file: ['KIMI_CODE_HOME', '', '.kimi-code', 'credentials'],
    how: 'start kimi and type /login',
  },
}

export interface SignIn {
  /** The variable or the file that holds a key; absent: none was found. */
  by?: string
  lookedFor: string[]
  how: string
}

/** `holds(path, sign)` says whether there is such a file or folder that is not empty, and whether the file contains the text `sign`. */
export function signInOf(
  { variables, file, sign, how }: Place,
  env: Record<string, string | undefined>,
  home: string,
  holds: (path: string, sign?: string) => boolean,
): SignIn {
  const paths: string[] = []
  if (file) {
    const [variable, below, atHome, name] = file
    const moved = env[variable]
    paths.push(moved ? join(moved, below, name) : join(home, atHome, name))
  }
  const by = variables.find((name) => env[name]) ?? paths.find((path) => holds(path, sign))
  return { ...(by === undefined ? {} : { by }), lookedFor: [...variables, ...paths], how }
}
