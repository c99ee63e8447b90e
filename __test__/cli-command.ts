// The `sheepdog` command as a test drives it: a process of its own, whose output is there to wait for.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

export const command = join(import.meta.dirname, '../cli/sheepdog.js')

export interface Ending {
  status: number | null
  stdout: string
  stderr: string
}

/** Runs it to its end. */
export async function sheepdog(
  args: string[],
  env: Record<string, string | undefined> = {},
): Promise<Ending> {
  const child = spawn(process.execPath, [command, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  })
  const [[status], stdout, stderr] = await Promise.all([
    once(child, 'exit'),
    text(child.stdout),
    text(child.stderr),
  ])
  return { status, stdout, stderr }
}

/** Starts it, to be sent signals or read at leisure. */
export function started(args: string[]) {
  const child = spawn(process.execPath, [command, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  const exit = once(child, 'exit').then(([status, signal]) => ({ status, signal }))
  const stderr = text(child.stderr)
  let printed = ''
  return {
    child,
    exit,
    stderr,
    /** Resolves with all that was printed as soon as it has what is waited for. */
    async printed(wanted: RegExp): Promise<string> {
      child.stdout.setEncoding('utf8')
      while (!wanted.test(printed)) {
        const chunk = child.stdout.read()
        if (chunk !== null) printed += chunk
        else if (child.stdout.readableEnded) throw new Error(`ended without ${wanted}: ${printed}`)
        else await Promise.race([once(child.stdout, 'readable'), once(child.stdout, 'end')])
      }
      return printed
    },
    /** Resolves with all that was printed, at the end. */
    async rest(): Promise<string> {
      child.stdout.setEncoding('utf8')
      for await (const chunk of child.stdout) printed += chunk
      return printed
    },
  }
}
