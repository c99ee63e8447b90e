// The questions of a session's agent, and the handlers that answer them.
import type { NativeSession } from '../../../native/native'
import { attach, detach, release, type Block, type Reader } from '../../delivery'
import { invalidOption } from '../../error'
import { suggestion } from '../../hint'
import { show } from '../../option'
import { readElicitationAnswer, type ElicitationRequest } from './elicitation'
import type { Answer, PermissionRequest } from './permission'
import type { OpenOptions } from './request'

interface Asked {
  question?: PermissionRequest
  elicitation?: ElicitationRequest
  /** Id of a question that needs no answer any more. */
  withdrawn?: string
  stopped?: true
}

/** Hands the agent's questions to the handlers, each with a signal of its own. */
export class Questions implements Reader {
  readonly #open = new Map<string, AbortController>()

  constructor(
    private readonly session: NativeSession,
    private readonly channel: number,
    private readonly handlers: Pick<OpenOptions, 'onPermission' | 'onElicitation'>,
    private readonly told: { onStop(): void; onOver(): void; onMisuse(error: Error): void },
  ) {
    attach(channel, this)
  }

  onBlock(block: Block): void {
    release(this.channel, block.weight)
    for (const line of block.text.split('\n')) {
      const said = JSON.parse(line) as Asked
      if (said.question) void this.#ask(said.question)
      if (said.elicitation) void this.#elicit(said.elicitation)
      if (said.withdrawn !== undefined) this.#withdraw(said.withdrawn)
      if (said.stopped) this.told.onStop()
    }
  }

  onEnd(): void {
    for (const id of [...this.#open.keys()]) this.#withdraw(id)
    this.told.onOver()
  }

  close(): void {
    detach(this.channel)
    this.onEnd()
  }

  async #ask(question: PermissionRequest): Promise<void> {
    const { id } = question
    await this.#handle(
      id,
      async (signal) => this.handlers.onPermission?.(question, { signal }),
      (answer) => this.session.answer(id, ...toWord(answer)),
      (problem) => this.session.answer(id, 'reject', false, problem),
    )
  }

  async #elicit(request: ElicitationRequest): Promise<void> {
    const { id } = request
    await this.#handle(
      id,
      async (signal) => this.handlers.onElicitation?.(request, { signal }),
      (answer) => this.session.elicited(id, ...readElicitationAnswer(answer)),
      (problem) => this.session.elicited(id, 'cancel', undefined, problem),
    )
  }

  /**
   * Runs a handler under a signal of its own. One that throws refuses what was asked. An answer that is none is a mistake in
   * the caller's program, which the agent's refusal would hide: it ends the turn.
   */
  async #handle<T>(
    id: string,
    ask: (signal: AbortSignal) => Promise<T>,
    give: (answer: T) => void,
    refuse: (problem: string) => void,
  ): Promise<void> {
    const controller = new AbortController()
    this.#open.set(id, controller)
    try {
      const answer = await ask(controller.signal)
      try {
        give(answer)
      } catch (error) {
        refuse((error as Error).message)
        this.told.onMisuse(error as Error)
      }
    } catch (error) {
      refuse(error instanceof Error ? error.message : String(error))
    } finally {
      this.#open.delete(id)
    }
  }

  #withdraw(id: string): void {
    this.#open.get(id)?.abort()
    this.#open.delete(id)
  }
}

function toWord(answer: Answer | undefined): [word: string, isOption: boolean] {
  if (answer === 'allow' || answer === 'allow-always' || answer === 'reject') return [answer, false]
  if (typeof answer === 'object' && typeof answer?.optionId === 'string') return [answer.optionId, true]
  const words = ['allow', 'allow-always', 'reject']
  const hint = typeof answer === 'string' ? suggestion(answer, words, (word) => `"${word}"`) : ''
  throw invalidOption(
    'onPermission',
    `expected "allow", "allow-always", "reject" or { optionId } as its answer, got ${show(answer)}${hint}`,
  )
}
