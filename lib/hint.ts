// Hints for a name that is not known: "did you mean ...?". PURE.

/** Words that other tools have for the same thing. One that a list does not know is never suggested for it. */
const wordsOfOthers: Record<string, readonly string[]> = {
  plan: ['read-only', 'readonly', 'ReadOnly'],
  edit: ['acceptEdits', 'accept-edits', 'auto_edit', 'autoEdit', 'auto-edit', 'workspace-write', 'write'],
  auto: [
    'bypassPermissions',
    'dangerously-skip-permissions',
    'danger-full-access',
    'full-auto',
    'yolo',
    'all',
    'never',
  ],
  ask: ['default', 'manual', 'prompt', 'on-request', 'untrusted', 'confirm'],
  allow: ['allow_once', 'allow-once', 'approve', 'approved', 'accept', 'yes', 'y', 'ok', 'once'],
  'allow-always': ['allow_always', 'always', 'approve_always', 'approved_for_session', 'session'],
  reject: ['reject_once', 'deny', 'denied', 'disallow', 'no', 'n', 'cancel', 'abort', 'decline'],
  keep: ['leave', 'ignore', 'detach'],
  leave: ['keep', 'ignore'],
  name: ['tool', 'toolName', 'tool_name'],
  command: ['cmd', 'bash', 'shell', 'commands', 'pattern'],
  path: ['file', 'paths', 'files', 'glob'],
  execute: ['bash', 'shell', 'command', 'exec', 'run', 'Bash', 'terminal'],
  fetch: ['web', 'WebFetch', 'http'],
  'claude-code': ['claude', 'anthropic'],
  copilot: ['github-copilot', 'copilot-cli'],
  codex: ['openai', 'openai-codex'],
  gemini: ['gemini-cli', 'google'],
  image: ['image_url', 'input_image'],
  text: ['input_text', 'content'],
  mimeType: ['media_type', 'mediaType', 'mime', 'mime_type'],
  headers: ['http_headers', 'httpHeaders'],
  url: ['httpUrl', 'serverUrl', 'endpoint', 'baseUrl'],
  attempts: ['maxAttempts', 'retries', 'limit', 'times'],
}

/**
 * "; did you mean NAME?" for the one known name that this one was meant to be: a slip of a letter or two, a part of it, or it
 * with more words. Nothing where two would do as well. `written` shows the name as the reader writes it.
 */
export function suggestion(
  name: string,
  known: readonly string[],
  written: (name: string) => string = (known) => known,
): string {
  const meant = known.find(
    (word) => Object.hasOwn(wordsOfOthers, word) && wordsOfOthers[word]!.includes(name),
  )
  const best = meant ?? closest(name, known) ?? related(name, known)
  return best === undefined ? '' : `; did you mean ${written(best)}?`
}

/** A slip for each three letters: more makes another word of it. */
function closest(name: string, known: readonly string[]): string | undefined {
  const most = Math.max(1, Math.floor(name.length / 3))
  const near = known
    .map((candidate) => ({ candidate, distance: slips(name.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ distance, candidate }) => distance <= most && distance < candidate.length)
    .sort((left, right) => left.distance - right.distance)
  const [first, second] = near
  return first && first.distance !== second?.distance ? first.candidate : undefined
}

/** The one known name that begins as this one does, or shares its words: "claude-code" for "claude", "schema" for "outputSchema". */
function related(name: string, known: readonly string[]): string | undefined {
  const words = wordsOf(name)
  const isRelated = (candidate: string) => {
    const others = wordsOf(candidate)
    const [short, long] = words.length <= others.length ? [words, others] : [others, words]
    return short.every((word) => long.includes(word) && word.length > 2)
  }
  const begins = (candidate: string) => {
    const [left, right] = [name.toLowerCase(), candidate.toLowerCase()]
    let shared = 0
    while (shared < left.length && left[shared] === right[shared]) shared++
    return shared >= 3 && shared >= Math.min(left.length, right.length) * 0.75
  }
  for (const fits of [isRelated, begins]) {
    const found = known.filter(fits)
    if (found.length === 1) return found[0]
  }
  return undefined
}

/** The words of "maxTokens", "max-tokens". */
function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z\d])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .split(/[^a-z\d]+/)
    .filter(Boolean)
}

/** Letters that are missing, too many, wrong, or in the place of their neighbour. */
function slips(left: string, right: string): number {
  let before: number[] = []
  let row = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let i = 1; i <= left.length; i++) {
    const next = [i]
    for (let j = 1; j <= right.length; j++) {
      const cost = left[i - 1] === right[j - 1] ? 0 : 1
      let least = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + cost)
      const isSwapped = i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1]
      if (isSwapped) least = Math.min(least, before[j - 2]! + 1)
      next.push(least)
    }
    ;[before, row] = [row, next]
  }
  return row[right.length]!
}
