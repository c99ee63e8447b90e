// The jobs of a fleet, live and past: each is a run of the page.
import type { Fleet, JobRecord } from '../../lib/fleet'
import { elapsedMs } from '../../lib/host'
import { JobRows } from './job_rows'
import { inputWords } from '../event'
import { Indexes } from './record_index'
import { withTries } from './tries'
import type { FileKind, ProcessNode, RunDetail, RunSource, RunState, RunSummary, Try } from './source'
import { sumOf, tokensOf } from './usage'

/** The newest jobs alone: a fleet may have many thousands. */
const mostJobs = 500
/** How long a look at all records serves. */
const recordsMs = 2000

const states: Record<JobRecord['state'], RunState> = {
  queued: 'waiting',
  running: 'running',
  done: 'done',
  failed: 'failed',
  dead: 'failed',
  cancelled: 'killed',
}

/** An id that nobody chose. */
const generated = /^[0-9a-z]{26}$/
/** Longest text beside the rows. */
const mostShown = 200_000

/** Parts of a job's result that are shown, when the job was a turn. */
interface Told {
  text?: string
  structured?: unknown
}

export class FleetSource implements RunSource {
  readonly #followed = new Indexes<JobRows>()
  /** As it was when the page last heard of it. */
  #seen = new Map<string, string>()
  #records: { at: number; list: Promise<JobRecord[]> } | undefined

  constructor(
    readonly fleet: Fleet,
    readonly title: string,
  ) {}

  async list(): Promise<RunSummary[]> {
    return (await this.#all()).map(summaryOf)
  }

  async detail(id: string): Promise<RunDetail | undefined> {
    const record = await this.#record(id)
    if (!record) return undefined
    const rows = await this.#rows(record)
    const tries = triesOf(record)
    const timeline = withTries(rows.timeline.timeline(), tries, {
      first: 'waits in its queue',
      isWaiting: record.state === 'queued',
    })
    const { usage } = record
    return {
      ...summaryOf(record),
      folder: '',
      prompt: record.prompt ?? null,
      prompts: [],
      texts: textsOf(record),
      facts: factsOf(record),
      message: record.error?.message ?? null,
      attempts: record.attempt,
      tries,
      race: null,
      tokens: tokensOf(usage ?? rows.usage),
      costUsd: usage?.costUsd || rows.usage?.costUsd || null,
      rows: rows.length,
      isReading: false,
      problem: rows.problem,
      timeline,
    }
  }

  async index(id: string): Promise<JobRows | undefined> {
    const record = await this.#record(id)
    return record && this.#rows(record)
  }

  async file(id: string, what: FileKind) {
    const isKnown = what === 'events' && (await this.#record(id)) !== undefined
    return isKnown ? jsonLines(await this.fleet.job(id)) : undefined
  }

  /** They run on the worker's machine. */
  async processes(): Promise<ProcessNode[]> {
    return []
  }

  async stop(id: string): Promise<boolean> {
    const record = await this.#record(id)
    if (!record || record.endedAt !== undefined) return false
    const ended = await (await this.fleet.job(id)).cancel()
    this.#records = undefined
    return ended.state === 'cancelled'
  }

  async poll(): Promise<string[]> {
    const seen = new Map<string, string>()
    for (const { id, state, attempt } of await this.#all()) {
      const rows = this.#followed.get(id)
      const now = `${state} ${attempt} ${rows?.length ?? 0}`
      seen.set(id, now)
    }
    const before = this.#seen
    this.#seen = seen
    // Those that are gone as well.
    return [...new Set([...before.keys(), ...seen.keys()])].filter((id) => before.get(id) !== seen.get(id))
  }

  close(): void {
    this.#followed.forEach((rows) => rows.close())
  }

  /** The newest first. */
  async #all(): Promise<JobRecord[]> {
    const now = elapsedMs()
    if (!this.#records || now - this.#records.at > recordsMs)
      this.#records = { at: now, list: newest(this.fleet) }
    return this.#records.list
  }

  async #record(id: string): Promise<JobRecord | undefined> {
    return (await this.#all()).find((record) => record.id === id)
  }

  #rows({ id, submittedAt }: JobRecord): Promise<JobRows> {
    return this.#followed.of(id, () => new JobRows(this.fleet, id, submittedAt))
  }
}

async function newest(fleet: Fleet): Promise<JobRecord[]> {
  const all: JobRecord[] = []
  for await (const record of fleet.jobs()) all.push(record)
  return all.slice(-mostJobs).reverse()
}

/** The stored events, as JSON lines. */
async function* jsonLines(job: Awaited<ReturnType<Fleet['job']>>): AsyncGenerator<string> {
  for await (const event of job.events({ live: false })) yield `${JSON.stringify(event)}\n`
}

function textsOf(record: JobRecord): [string, string][] {
  const { data, result, provider } = record
  const texts: [string, unknown][] = [['data', data]]
  if (provider === undefined) texts.push(['result', result])
  else {
    const { text, structured } = (result ?? {}) as Told
    texts.push(['answer', text], ['structured answer', structured])
  }
  return texts
    .filter(([, value]) => value !== undefined && value !== '')
    .map(([name, value]) => [
      name,
      (typeof value === 'string' ? value : JSON.stringify(value, null, 2)).slice(0, mostShown),
    ])
}

/** Its title; else its work in few words. */
function nameOf({ title, prompt, handler, data, id }: JobRecord): string {
  if (title) return title
  if (prompt) return prompt.split('\n', 1)[0]!.slice(0, 200)
  if (handler !== undefined && data !== undefined) return `${handler} ${inputWords(data)}`.slice(0, 200)
  // An id that its submitter chose says more than the handler's name.
  return handler !== undefined && generated.test(id) ? handler : id
}

function triesOf({ attempts, submittedAt }: JobRecord): Try[] {
  const since = (at: number) => Math.max(0, at - submittedAt)
  return attempts.map(({ attempt, worker, startedAt, endedAt, usage, reason, error }) => ({
    attempt,
    worker,
    fromMs: since(startedAt),
    toMs: endedAt === undefined ? null : since(endedAt),
    // Records of older versions have the code alone. A drained attempt has no error.
    error: error ? `${error.code}: ${error.message}` : reason === 'drained' ? null : (reason ?? null),
    ...sumOf(usage),
  }))
}

function summaryOf(record: JobRecord): RunSummary {
  const { id, state, submittedAt, endedAt, error, usage } = record
  return {
    id,
    kind: 'turn',
    name: nameOf(record),
    what: record.provider ?? record.handler ?? '',
    state: states[state],
    startedAtMs: submittedAt,
    durationMs: Math.max(0, (endedAt ?? Date.now()) - submittedAt),
    ending: state === 'done' ? null : (error?.code ?? null),
    ...sumOf(usage),
  }
}

function factsOf(record: JobRecord): [string, string][] {
  const { title, handler, tags, queue, priority, worker, sessionId, notBefore } = record
  const { attempt, spent, maxAttempts } = record
  const facts: [string, string | undefined][] = [
    ['title', title],
    ['job', record.id],
    ['handler', handler],
    ['tags', tags?.join(', ')],
    ['queue', `${queue}, priority ${priority}`],
    ['worker', worker],
    ['attempt', `${attempt}, ${spent} of ${maxAttempts} spent`],
    ['session', sessionId],
    ['not before', notBefore === undefined ? undefined : new Date(notBefore).toLocaleString()],
  ]
  return facts.filter((fact): fact is [string, string] => !!fact[1])
}
