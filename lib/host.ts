// Everything that this package takes from the program that it runs in: its environment, folder, timers, clock and stack traces.
// Each of them can be replaced by a test runner, another JavaScript engine or the program itself, so that all of lib/ and cli/ asks here.
import * as nodeTimers from 'node:timers'
import { performance } from 'node:perf_hooks'
import { homedir } from 'node:os'
import { isAbsolute, resolve } from 'node:path'
import { types } from 'node:util'
import { isMainThread } from 'node:worker_threads'

const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate } = nodeTimers

/** The timers as they were when this package was loaded: the fake ones of a test runner must not stop a run. */
export const timers = { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate }

/** Milliseconds of a clock that only goes forward; see `timers`. */
export const elapsedMs: () => number = performance.now.bind(performance)

/** The longest time that a timer can hold. A longer one would fire at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Resolves after this many milliseconds. Does not keep the host alive. */
export function pause(ms: number): Promise<void> {
  return new Promise((done) => void setTimeout(done, Math.min(ms, LONGEST_TIMER_MS)).unref())
}

/** Resolves in the next turn of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise((done) => void setImmediate(done))
}

/** A timer that is later than this means that the thread was busy, or that the process was stopped. */
const LATE_MS = 50

/**
 * Calls back when this many milliseconds have passed in which this thread could look at what had come. A time in which the process
 * was stopped, or its event loop busy, is added to the wait. Returns the function that gives the wait up.
 *
 * Longer waits than a timer can hold never end.
 */
export function onWaitedFor(ms: number, onOver: () => void): () => void {
  let timer: NodeJS.Timeout | undefined
  // A thread that is always late must not wait for ever.
  let longest = ms
  const wait = (left: number) => {
    const due = elapsedMs() + left
    timer = setTimeout(() => {
      const late = Math.min(elapsedMs() - due, longest)
      longest -= late
      if (late > LATE_MS) wait(late)
      // Anything that came during the wait is delivered in this turn of the event loop.
      else setImmediate(() => timer && onOver())
    }, left)
  }
  if (ms <= LONGEST_TIMER_MS) wait(ms)
  return () => {
    clearTimeout(timer)
    timer = undefined
  }
}

/** Not at the load: the command says its version without the addon, too. */
function addon() {
  return (require('./native') as typeof import('./native')).native
}

/** The environment of the program, as it is now. */
export function environment(): NodeJS.ProcessEnv {
  return process.env
}

export function variable(name: string): string | undefined {
  return process.env[name]
}

/** Environments that were examined, and whether the system's own is behind them. */
const examined = new WeakMap<object, boolean>()

/**
 * Whether the environment is the system's own, so that native code can read it, for a tenth of the price. In a worker thread, in
 * another engine, and where the program or a test runner replaced `process.env`, only JavaScript knows what was set and removed.
 */
function isSystemEnvironment(): boolean {
  const { env } = process
  let known = examined.get(env)
  if (known === undefined) examined.set(env, (known = isMainThread && writesThrough(env)))
  return known
}

/**
 * Whether a write through the object arrives at the system. Only the environment of Node.js refuses a property that a variable can't
 * be, with this code; a copy takes it. Other engines refuse it too, and keep what is written to themselves.
 */
function writesThrough(env: NodeJS.ProcessEnv): boolean {
  return !types.isProxy(env) && isEnvironment(env) && arrives(env)
}

function arrives(env: NodeJS.ProcessEnv): boolean {
  const name = 'SHEEPDOG_PROBE'
  const before = env[name]
  const value = `${process.pid}-${elapsedMs()}`
  env[name] = value
  const read = addon().systemVariable(name)
  if (before === undefined) delete env[name]
  else env[name] = before
  return read === value
}

function isEnvironment(env: NodeJS.ProcessEnv): boolean {
  const probe = Symbol('probe')
  try {
    Object.defineProperty(env, probe, { value: '', configurable: true })
    delete (env as unknown as Record<symbol, unknown>)[probe]
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ERR_INVALID_OBJECT_DEFINE_PROPERTY'
  }
}

/** The variables that `child_process` would pass on. Undefined: those of the system, which native code reads. */
export function variables(): { name: string; value: string }[] | undefined {
  if (isSystemEnvironment()) return undefined
  const env = process.env
  const all: { name: string; value: string }[] = []
  // With those of a prototype.
  for (const name in env) {
    const value: unknown = env[name]
    if (value !== undefined) all.push({ name, value: `${value as string}` })
  }
  return all
}

/**
 * Name of the host's working folder; undefined when it has none any more. For names that are shown and searched: programs start in
 * the folder itself, which native code holds. Node.js remembers the name, and so does not see that the folder was renamed.
 */
export function folderName(): string | undefined {
  return addon().hostFolder() ?? undefined
}

/** The path that is meant at the time of the call. Without a working folder a relative one leads nowhere. */
export function absolutePath(path: string): string {
  const folder = isAbsolute(path) ? '/' : folderName()
  return folder === undefined ? path : resolve(folder, path)
}

/** The home folder of the user; undefined where the system knows neither. */
export function home(): string | undefined {
  try {
    return homedir()
  } catch {
    return undefined
  }
}

/** The stack of an error as text. The program decides what a stack is (`Error.prepareStackTrace`), and reading it may throw. */
export function stackOf(error: Error): string | undefined {
  try {
    const stack: unknown = error.stack
    return typeof stack === 'string' ? stack : undefined
  } catch {
    return undefined
  }
}
