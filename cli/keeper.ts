// The processes that keep the fleet of a folder up, and their end by `sheepdog fleet down`. Each one listens on loopback, and its
// file in the folder says at which port: the number of a process that was killed may belong to any other process by now.
import { randomUUID } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { listenOnLoopback } from './loopback'

interface Keeper {
  port: number
  /** The first word of a keeper to who connects. */
  name: string
  /** The word that ends it. */
  token: string
}

const filePattern = /^keeper-.+\.json$/
const answerMs = 2_000
const endMs = 20_000

/** Keeps this process, and calls `end` when the folder's keepers have to end. Returns what takes its file away. */
export async function listenForEnd(dir: string, end: () => void): Promise<() => void> {
  const [name, token] = [randomUUID(), randomUUID()]
  const server = createServer((socket) => {
    socket.setEncoding('utf8').on('error', () => {})
    socket.on('data', (word) => (`${word}` === token ? end() : socket.destroy()))
    socket.write(name)
  })
  const port = await listenOnLoopback(server)
  const file = join(dir, `keeper-${name}.json`)
  mkdirSync(dir, { recursive: true })
  // Under its name the file is whole.
  writeFileSync(`${file}.new`, JSON.stringify({ port, name, token } satisfies Keeper), { mode: 0o600 })
  renameSync(`${file}.new`, file)
  return () => rmSync(file, { force: true })
}

/** Ends the keepers of the folder. Resolves with their number when they are gone. */
export async function endKeepers(dir: string): Promise<number> {
  let count = 0
  for (const name of keeperFiles(dir)) {
    const file = join(dir, name)
    const keeper = readKeeper(file)
    if (keeper && (await endKeeper(keeper))) count++
    // A keeper that was killed leaves its file, and a full disk a damaged one.
    rmSync(file, { force: true })
  }
  return count
}

function keeperFiles(dir: string): string[] {
  try {
    return readdirSync(dir).filter((name) => filePattern.test(name))
  } catch {
    return []
  }
}

/** Undefined: the file is damaged. */
function readKeeper(file: string): Keeper | undefined {
  try {
    const { port, name, token } = JSON.parse(readFileSync(file, 'utf8')) as Partial<Keeper>
    return Number.isInteger(port) && port! > 0 && port! < 65_536 && name && token
      ? { port: port!, name, token }
      : undefined
  } catch {
    return undefined
  }
}

/** False: there is none. */
function endKeeper({ port, name, token }: Keeper): Promise<boolean> {
  return new Promise((resolve, reject) => {
    let isKeeper = false
    const socket = connect({ port, host: '127.0.0.1', timeout: answerMs }).setEncoding('utf8')
    socket.on('error', () => {})
    socket.on('timeout', () => {
      if (isKeeper) reject(new Error('`sheepdog fleet up` was asked to end, and does not'))
      socket.destroy()
    })
    socket.on('data', (word) => {
      isKeeper = `${word}` === name
      if (!isKeeper) return socket.destroy()
      socket.setTimeout(endMs)
      return socket.write(token)
    })
    // A keeper's process holds the connection to its end.
    socket.on('close', () => resolve(isKeeper))
  })
}
