// A coding agent of this machine as a handler: prompts go through the harness.
import { Harness, type HarnessOptions } from '../harness'
import { SheepdogError } from '../error'
import type { AgentHandler, AgentResult, AgentSender } from './handler'

/** Throws INVALID_OPTION for a wrong option, an unknown provider included. */
export function agentHandler(options: HarnessOptions): AgentHandler {
  const harness = new Harness(options)
  return {
    async run(
      { systemPrompt, userPrompt, model, env, outputFormat, secrets, signal },
      sender,
    ): Promise<AgentResult> {
      const turn = harness.start(userPrompt, {
        systemPrompt: systemPrompt || options.systemPrompt,
        model: model || options.model,
        env: { ...options.env, ...env },
        schema: schemaOf(outputFormat) ?? options.schema,
        redact: [...(options.redact ?? []), ...secrets],
        signal,
      })
      const speech = new Speech(sender)
      try {
        for await (const event of turn) {
          if (event.type === 'text') await speech.hear(event.text, event.delta)
          else if (event.type !== 'usage' && event.type !== 'noise') await speech.pause()
        }
        await speech.pause()
        const { text, structured, sessionId, usage, durationMs, attempts } = await turn.result
        const metadata = { session_id: sessionId, usage, duration_ms: durationMs, attempts }
        if (structured === undefined) return { type: 'text', text, metadata }
        return {
          type: 'structured_output',
          structuredOutput: structured as Record<string, unknown>,
          metadata,
        }
      } catch (error) {
        const { code, kind, message } = error as SheepdogError
        // The partial result and the process's facts are this machine's business.
        throw Object.assign(new Error(message), { metadata: { code, kind } })
      }
    },
  }
}

/** The schema out of `{ type: "json_schema", schema }`; a bare schema is taken as it is. */
function schemaOf(outputFormat: unknown): object | undefined {
  if (typeof outputFormat !== 'object' || outputFormat === null) return undefined
  const { type, schema } = outputFormat as { type?: unknown; schema?: unknown }
  return type === 'json_schema' && typeof schema === 'object' && schema !== null ? schema : outputFormat
}

/** Text that comes in pieces is sent in whole messages, once. */
class Speech {
  readonly #sender: AgentSender
  #pieces = ''

  constructor(sender: AgentSender) {
    this.#sender = sender
  }

  async hear(text: string, delta: boolean): Promise<void> {
    if (delta) {
      this.#pieces += text
      return
    }
    // The whole says what the pieces said.
    if (!text.includes(this.#pieces.trim())) await this.pause()
    this.#pieces = ''
    await this.#sender.sendAssistantMessage([text])
  }

  async pause(): Promise<void> {
    const text = this.#pieces
    this.#pieces = ''
    if (text.trim() !== '') await this.#sender.sendAssistantMessage([text])
  }
}
