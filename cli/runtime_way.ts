// The client of a runtime that `query` and `exec` share. A signal, or a reader that went away, gives its request up.
import { RuntimeClient } from '../lib/runtime'
import { variable } from '../lib/host'
import { type Ending, setting } from './command'
import { leaveBy, onInterrupt, signalStatus } from './interrupt'
import { Output } from './output'
import { notReached, shownAddress } from './words'

export const tokenOption = setting('T', 'token of the runtime (default: the variable SHEEPDOG_RUNTIME_TOKEN)')

/** Connects, asks, and ends as `ask` says. `statusOf`: of an error that is no failure of the command; others are thrown. */
export async function withRuntime(
  url: string,
  token: string | undefined,
  ask: (client: RuntimeClient, output: Output, signal: AbortSignal) => Promise<Ending>,
  statusOf: (error: Error, output: Output) => number | undefined = () => undefined,
): Promise<Ending> {
  const controller = new AbortController()
  const output = new Output(undefined, () => controller.abort())
  const interrupt = onInterrupt(() => {
    output.hurry()
    controller.abort()
  }, leaveBy)
  try {
    await using client = await RuntimeClient.connect(url, {
      token: token ?? (variable('SHEEPDOG_RUNTIME_TOKEN') || undefined),
      signal: controller.signal,
    }).catch((error: Error) => {
      throw Object.assign(error, { message: notReached(error.message, shownAddress(url)) })
    })
    return await ask(client, output, controller.signal)
  } catch (error) {
    if (interrupt.signal) return interrupt.signal
    if (output.brokenQuietly) return signalStatus('SIGPIPE')
    const status = statusOf(error as Error, output)
    if (status === undefined) throw error
    return status
  } finally {
    interrupt.end()
    output.close()
  }
}
