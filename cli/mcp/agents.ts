// The agents that a client of `sheepdog mcp` started: at most so many at once, each in the folder and at the level of this server.
import { quoted } from '../../lib/json'
import { randomUUID } from 'node:crypto'
import { closeSync, constants, openSync, readlinkSync, realpathSync } from 'node:fs'
import path from 'node:path'
import {
  Harness,
  type ProviderName,
  type SheepdogError,
  type Turn,
  type TurnOptions,
  type TurnResult,
} from '../../lib/index'
import { absolutePath, elapsedMs, timers } from '../../lib/host'
import { describeEvent } from '../event'

/** Lines of events that are kept of each agent. */
const keptLines = 50
/** Agents that ended and whose result can still be asked for. The oldest is forgotten first. */
const keptAgents = 200

export interface ServerRules {
  /** Providers that may be started. */
  providers: ProviderName[]
  /** Working directory of the agents. A call may name a folder below it. */
  cwd: string
  maxAgents: number
  options: TurnOptions
}

export type AgentState = 'running' | 'done' | 'failed' | 'cancelled'

interface Agent {
  id: string
  provider: ProviderName
  prompt: string
  startedAt: number
  lastEventAt: number
  endedAt?: number
  state: AgentState
  tool?: string
  lines: string[]
  /** Lines that `status` has not returned yet. */
  unseen: number
  turn: Turn
  result?: TurnResult
  error?: SheepdogError
  /** Resolves at the end of the turn. */
  ended: Promise<void>
}

export class Agents {
  readonly #rules: ServerRules
  readonly #harnesses: Map<string, Harness>
  readonly #agents = new Map<string, Agent>()

  /** @throws INVALID_OPTION for an option that no turn takes. */
  constructor(rules: ServerRules) {
    this.#rules = { ...rules, cwd: realpathSync(rules.cwd) }
    const { providers, options } = rules
    this.#harnesses = new Map(providers.map((provider) => [provider, new Harness({ provider, ...options })]))
  }

  /** Starts an agent. Throws if a rule of this server forbids it. */
  async start(provider: string, prompt: string, cwd?: string): Promise<object> {
    const { providers, maxAgents } = this.#rules
    const harness = this.#harnesses.get(provider)
    if (!harness)
      throw new Error(`This server does not start ${provider}. It starts: ${providers.join(', ')}.`)
    const running = [...this.#agents.values()].filter(({ state }) => state === 'running')
    if (running.length >= maxAgents) {
      const ids = running.map(({ id }) => id).join(', ')
      throw new Error(
        `${maxAgents} agents run already, which is this server's limit: wait for one of ${ids}, or cancel it.`,
      )
    }
    const folder = this.#folder(cwd)
    let turn: Turn
    try {
      turn = harness.start(prompt, { cwd: folder.path })
    } catch (error) {
      folder.close()
      throw error
    }
    const agent = this.#keep(provider as ProviderName, prompt, turn)
    void agent.ended.finally(folder.close)
    // A turn that can't be started at all is the answer to this call.
    await Promise.race([agent.ended, new Promise((ready) => timers.setTimeout(ready, 200))])
    if (agent.state === 'failed' && agent.result?.process === undefined) {
      this.#agents.delete(agent.id)
      const { code, message } = agent.error!
      throw new Error(`${code}: ${message}`)
    }
    return { id: agent.id, provider, state: agent.state }
  }

  /** The state of an agent and what it did since the last question. Waits up to `waitMs` for its end. */
  async status(id: string, waitMs: number, signal: AbortSignal | undefined): Promise<object> {
    const agent = this.#find(id)
    if (agent.state === 'running' && waitMs > 0) await within(agent.ended, waitMs, signal)
    const now = agent.endedAt ?? elapsedMs()
    const news = agent.lines.slice(agent.lines.length - Math.min(agent.unseen, agent.lines.length))
    const leftOut = agent.unseen - news.length
    // A client that cancels its call gets no answer to it.
    if (!signal?.aborted) agent.unseen = 0
    return {
      ...overview(agent, now),
      tool: agent.tool,
      silentMs: agent.state === 'running' ? Math.round(now - agent.lastEventAt) : undefined,
      events: leftOut > 0 ? [`[${leftOut} earlier events left out]`, ...news] : news,
      next: agent.state === 'running' ? 'Ask again, with waitMs.' : 'agent_result has the answer.',
    }
  }

  /** The answer of an agent, or why there is none. */
  result(id: string): object {
    const agent = this.#find(id)
    const { result, error } = agent
    const base = overview(agent, agent.endedAt ?? elapsedMs())
    if (agent.state === 'running')
      return { ...base, next: 'It is still running: ask agent_status, with waitMs.' }
    return {
      ...base,
      text: result?.text,
      structured: result?.structured,
      error: error && { code: error.code, kind: error.kind, message: error.message },
      sessionId: result?.sessionId,
      usage: result?.usage,
      warnings: result?.warnings?.length ? result.warnings : undefined,
    }
  }

  /** Ends an agent. Resolves when its process tree is gone. */
  async cancel(id: string): Promise<object> {
    const agent = this.#find(id)
    if (agent.state === 'running') {
      await agent.turn.abort()
      await agent.ended
    }
    return overview(agent, agent.endedAt ?? elapsedMs())
  }

  list(): object {
    const now = elapsedMs()
    return {
      agents: [...this.#agents.values()].map((agent) => overview(agent, agent.endedAt ?? now)),
      maxAgents: this.#rules.maxAgents,
      providers: this.#rules.providers,
    }
  }

  /** Ends all agents. Resolves when their process trees are gone. */
  async close(): Promise<void> {
    await Promise.all([...this.#agents.keys()].map((id) => this.cancel(id).catch(() => {})))
  }

  /**
   * The folder that a call names, which has to be the server's own or below it. On Linux it is held open until it is closed, and
   * the agent starts in what was looked at: by its name it could be replaced in between.
   */
  #folder(cwd: string | undefined): { path: string; close(): void } {
    const root = this.#rules.cwd
    const named = cwd === undefined ? root : path.isAbsolute(cwd) ? cwd : path.join(absolutePath(root), cwd)
    let held: number | undefined
    const close = () => {
      if (held !== undefined) closeSync(held)
      held = undefined
    }
    let real: string
    try {
      if (process.platform === 'linux') held = openSync(named, constants.O_RDONLY | constants.O_DIRECTORY)
      real = held === undefined ? realpathSync(named) : readlinkSync(`/proc/self/fd/${held}`)
    } catch {
      close()
      throw new Error(`cwd: there is no folder ${quoted(cwd ?? root)} below ${root}`)
    }
    if (!isBelow(root, real)) {
      close()
      throw new Error(`cwd: ${quoted(cwd ?? root)} is not below ${root}`)
    }
    return { path: held === undefined ? real : `/proc/self/fd/${held}`, close }
  }

  #find(id: string): Agent {
    const agent = this.#agents.get(id)
    if (!agent) throw new Error(`There is no agent ${quoted(id)}: list_agents shows all.`)
    return agent
  }

  #keep(provider: ProviderName, prompt: string, turn: Turn): Agent {
    const now = elapsedMs()
    const agent: Agent = {
      id: randomUUID().slice(0, 8),
      provider,
      prompt,
      startedAt: now,
      lastEventAt: now,
      state: 'running',
      lines: [],
      unseen: 0,
      turn,
      ended: Promise.resolve(),
    }
    agent.ended = this.#follow(agent)
    this.#agents.set(agent.id, agent)
    for (const [id, { state }] of this.#agents) {
      if (this.#agents.size <= keptAgents) break
      if (state !== 'running') this.#agents.delete(id)
    }
    return agent
  }

  async #follow(agent: Agent): Promise<void> {
    try {
      for await (const event of agent.turn) {
        agent.lastEventAt = elapsedMs()
        if (event.type === 'tool_start') agent.tool = event.name
        if (event.type === 'tool_end') agent.tool = undefined
        const line = describeEvent(event)
        if (line === undefined) continue
        agent.lines.push(line)
        agent.unseen += 1
        if (agent.lines.length > keptLines) agent.lines.shift()
      }
      agent.result = await agent.turn.result
      agent.state = 'done'
    } catch (error) {
      agent.error = error as SheepdogError
      agent.result = agent.error.result as TurnResult | undefined
      agent.state = agent.error.code === 'AGENT_ABORTED' ? 'cancelled' : 'failed'
    }
    agent.tool = undefined
    agent.endedAt = elapsedMs()
  }
}

/** Whether a folder is this one, or below it. Between drives there is no relative way, so that the absolute one comes back. */
export function isBelow(root: string, folder: string, { relative, sep, isAbsolute } = path): boolean {
  const way = relative(root, folder)
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)
}

function overview(agent: Agent, now: number): object {
  return {
    id: agent.id,
    provider: agent.provider,
    state: agent.state,
    prompt: agent.prompt.length > 100 ? `${agent.prompt.slice(0, 100)}…` : agent.prompt,
    elapsedMs: Math.round(now - agent.startedAt),
  }
}

async function within(ended: Promise<void>, ms: number, signal: AbortSignal | undefined): Promise<void> {
  let finish = () => {}
  const late = new Promise<void>((resolve) => (finish = resolve))
  const timer = timers.setTimeout(finish, ms)
  signal?.addEventListener('abort', finish, { once: true })
  await Promise.race([ended, late])
  timers.clearTimeout(timer)
  signal?.removeEventListener('abort', finish)
}
