// sheepdog chat: many prompts to one agent, with live questions.
import { createInterface, type Interface } from 'node:readline'
import {
  Harness,
  type AgentSession,
  type Answer,
  type OpenOptions,
  type PermissionRequest,
  type SheepdogError,
} from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { commandOptions, policyOption, protocolProgramOption, whom } from './agent_command'
import { parseArguments, UsageError } from './arguments'
import { type Ending, folderOption, type OptionTable, setting, flag } from './command'
import { describeEvent, describeResult } from './event'
import { leaveBy, onInterrupt } from './interrupt'
import { Output } from './output'
import { describeQuestion } from './question'
import { recordOptions } from './record'
import { resetOptions } from './reset'
import { json as toJson, put } from './screen'
import { hostOptions, levelOptions, toAgentSandbox, withoutWorkspace } from './sandbox'
import { toOptions } from './words'

export const summary = 'hold a session with a coding agent: many prompts'

export const forms = ['PROVIDER [options]', '[options] -- COMMAND [ARGUMENTS]']

export const about = `
Opens a session with an agent (over the Agent Client Protocol) and sends it each line of stdin as a prompt. On a
terminal you are asked for permission: y allows once, a allows always, anything else refuses. Ctrl-C cancels the turn;
a second Ctrl-C, or Ctrl-D, closes the session. In a pipe, what neither --policy nor the level allows is
refused.

A COMMAND is any other agent: a program that speaks the Agent Client Protocol.

Lines that begin with a slash are commands: /mode [ID], /option ID VALUE, /resume ID, /help, /quit.`

export const operands = [{ name: 'PROVIDER', fits: providerNames() }] as const

export const options = {
  ...levelOptions,
  ...hostOptions,
  ...commandOptions,
  ...resetOptions,
  ...recordOptions,
  permission: setting(
    'LEVEL',
    'permission level: plan, edit, ask or auto (default: ask on a terminal, edit in a pipe)',
    ['plan', 'edit', 'ask', 'auto'],
  ),
  policy: policyOption,
  resume: setting('ID', 'continue an earlier session, in the same folder'),
  model: setting('NAME', 'model that the agent uses'),
  cwd: folderOption,
  binary: protocolProgramOption,
  json: flag('print one JSON line for each event and each result'),
} as const satisfies OptionTable

export const notes = `
Exit status: 0 if every prompt succeeded, 2 for a wrong command line, else 1. No process that the agent started is left.`

export const examples = [
  'sheepdog chat claude-code',
  'sheepdog chat --sandbox -- cline --acp',
  "printf 'Run the tests.\\nFix them.\\n' | sheepdog chat codex --permission auto",
]

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals, command } = parseArguments(withoutWorkspace(args), options)
  const { provider, words: rest } = whom(positionals, command, values)
  if (!provider)
    throw new UsageError('an agent is needed: sheepdog chat PROVIDER, or sheepdog chat -- COMMAND')
  if (rest.length > 0)
    throw new UsageError(`prompts come from stdin: ${JSON.stringify(rest[0])} was not expected`)
  const isTerminal = process.stdin.isTTY === true && process.stderr.isTTY === true
  const openOptions: OpenOptions = {
    ...toOptions<OpenOptions>(values),
    sandbox: toAgentSandbox(values),
    retry: toOptions<NonNullable<OpenOptions['retry']>>(values, 'retry.'),
  }
  // In a pipe nobody is there to ask.
  if (!isTerminal) openOptions.permission ??= 'edit'
  return new Chat(new Harness({ provider }), openOptions, isTerminal, values.json ?? false).run()
}

const words = 'use /mode [ID], /option ID VALUE, /resume ID, /help or /quit'

class Chat {
  readonly #harness: Harness
  readonly #options: OpenOptions
  readonly #isTerminal: boolean
  readonly #json: boolean
  readonly #output: Output
  readonly #lines: Interface
  #session: AgentSession | undefined
  #isBusy = false
  #isClosing = false
  /** Answers the question that is open. */
  #answer: ((word: string) => void) | undefined

  constructor(harness: Harness, options: OpenOptions, isTerminal: boolean, json: boolean) {
    this.#harness = harness
    this.#options = isTerminal
      ? { ...options, onPermission: (request, { signal }) => this.#ask(request, signal) }
      : options
    this.#isTerminal = isTerminal
    this.#json = json
    this.#output = new Output(undefined, () => void this.#close())
    this.#lines = createInterface({
      input: process.stdin,
      output: isTerminal ? process.stderr : undefined,
      prompt: `${harness.provider}> `,
    })
  }

  async run(): Promise<Ending> {
    let status = 0
    this.#lines.on('SIGINT', () => this.#onInterrupt())
    // Ctrl-C on a terminal is a key, which the line editor above reports. This listens for the other signals.
    const interrupt = onInterrupt(() => void this.#close(), leaveBy)
    try {
      const queue: string[] = []
      let wake = () => {}
      let isOver = false
      this.#lines.on('line', (line) => {
        if (this.#answer) return this.#answer(line)
        queue.push(line)
        wake()
      })
      this.#lines.on('close', () => {
        isOver = true
        wake()
      })
      await this.#open(this.#options)
      while (!this.#isClosing) {
        const line = queue.shift()
        if (line !== undefined) {
          if (!(await this.#onLine(line.trim()))) status = 1
        } else if (isOver) break
        else {
          if (this.#isTerminal) this.#lines.prompt()
          await new Promise<void>((resolve) => (wake = resolve))
        }
      }
    } finally {
      await this.#close()
      interrupt.end()
      this.#output.close()
    }
    return interrupt.signal ?? status
  }

  async #open(options: OpenOptions): Promise<void> {
    if (this.#isTerminal) this.#output.say(`opening a session with ${this.#harness.provider} ...`)
    this.#session = await this.#harness.open(options)
    const { sessionId, history, protocolVersion } = this.#session
    const past = history.filter((event) => event.type === 'prompt').length
    const resumed = past > 0 ? `, ${past} earlier prompts` : ''
    if (this.#isTerminal) this.#output.say(`session ${sessionId} (protocol ${protocolVersion}${resumed})`)
    const { record } = this.#session
    if (record !== undefined) this.#output.say(`sheepdog: on record in ${record}`)
  }

  /** Whether it succeeded. */
  async #onLine(line: string): Promise<boolean> {
    if (line === '') return true
    try {
      return line.startsWith('/') ? await this.#onWord(line.slice(1)) : await this.#prompt(line)
    } catch (error) {
      const { code, message } = error as SheepdogError
      this.#output.say(`sheepdog: ${code}: ${message}`)
      if (code === 'SESSION_CLOSED') this.#isClosing = true
      return false
    }
  }

  async #onWord(line: string): Promise<boolean> {
    const session = this.#session!
    const [word, first, ...rest] = line.split(/\s+/)
    switch (word) {
      case 'mode':
        if (first !== undefined) await session.setMode(first)
        for (const mode of session.modes)
          this.#output.say(`${mode.isCurrent ? '*' : ' '} ${mode.id}  ${mode.name}`)
        return true
      case 'option':
        if (first !== undefined) await session.setOption(first, rest.join(' '))
        for (const option of session.options) this.#output.say(`  ${option.id} = ${option.value}`)
        return true
      case 'resume':
        if (first === undefined) throw new UsageError('/resume needs the id of a session')
        await session.close()
        await this.#open({ ...this.#options, resume: first })
        return true
      case 'quit':
        this.#isClosing = true
        return true
      case 'help':
        this.#output.say(words)
        return true
      default:
        this.#output.say(`unknown command /${word}: ${words}`)
        return false
    }
  }

  async #prompt(text: string): Promise<boolean> {
    this.#isBusy = true
    const turn = this.#session!.start(text)
    let isInText = false
    try {
      for await (const event of turn) {
        if (this.#json) {
          await this.#output.write('stdout', `${toJson(event)}\n`)
        } else if (event.type === 'text') {
          isInText = !event.text.endsWith('\n')
          await this.#output.write('stdout', event.text)
        } else {
          const line = event.type === 'session' ? undefined : describeEvent(event)
          if (line === undefined) continue
          if (isInText) await this.#output.write('stdout', '\n')
          isInText = false
          await this.#output.write('stderr', `${line}\n`)
        }
      }
      if (isInText) await this.#output.write('stdout', '\n')
      const result = await turn.result
      if (this.#json) await this.#output.write('stdout', `${toJson({ type: 'result', ok: true, result })}\n`)
      else this.#output.say(`sheepdog: ${describeResult(result)}`)
      return true
    } catch (error) {
      const { code, message, result } = error as SheepdogError
      if (!this.#json) throw error
      const record = { type: 'result', ok: false, error: { code, message }, result }
      await this.#output.write('stdout', `${toJson(record)}\n`)
      if (code === 'AGENT_CRASHED' || code === 'SESSION_CLOSED') this.#isClosing = true
      return false
    } finally {
      this.#isBusy = false
    }
  }

  /** Asks the person at the terminal. */
  async #ask({ tool }: PermissionRequest, signal: AbortSignal): Promise<Answer> {
    this.#output.say('')
    for (const line of describeQuestion(tool, process.stderr.columns)) this.#output.say(line)
    put('stderr', '[y]es, [a]lways, [n]o? ')
    const word = await new Promise<string>((resolve) => {
      this.#answer = resolve
      signal.addEventListener('abort', () => resolve('n'), { once: true })
    })
    this.#answer = undefined
    const letter = word.trim().toLowerCase()[0]
    return letter === 'y' ? 'allow' : letter === 'a' ? 'allow-always' : 'reject'
  }

  #onInterrupt(): void {
    if (!this.#isBusy || this.#isClosing) return void this.#close()
    this.#isBusy = false
    this.#output.say('cancelling; Ctrl-C again closes the session')
    void this.#session?.cancel().catch(() => {})
  }

  async #close(): Promise<void> {
    this.#isClosing = true
    this.#lines.close()
    await this.#session?.close()
  }
}
