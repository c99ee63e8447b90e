// Tools of the cases. The package is the one that the environment names.
import { mkdirSync, mkdtempSync, readFileSync, readdirSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const entry = (name) => import(pathToFileURL(join(process.env.SHEEPDOG_PACKAGE, name)).href)
export const { Harness, listTrees, reapTrees, replayRecord, run, sandboxSupport, spawn, stopTree } =
  await entry('index.mjs')
export const { Fleet } = await entry('entries/fleet.mjs')
export const { complete } = await entry('entries/model.mjs')
export const { RuntimeClient, serveRuntime } = await entry('entries/runtime.mjs')

export const support = sandboxSupport()
export const work = mkdtempSync(join(tmpdir(), 'cases-'))
export const inside = join(work, 'inside')
export const outside = join(work, 'outside')
for (const folder of [join(inside, 'a'), join(inside, 'b'), outside]) mkdirSync(folder, { recursive: true })

export const sh = (script, options = {}) => run('sh', ['-c', script], { cwd: inside, ...options })

/** Runs a program of JavaScript. */
export const js = (program, options = {}) =>
  run(process.execPath, ['-e', program], { cwd: inside, ...options })

/** A number of seconds to sleep that no other process sleeps. */
export const mark = () => `${1_000_000 + Math.floor(Math.random() * 1e9)}`

/** Starts three processes in sessions of their own, and says so. */
export const daemons = (tag) =>
  `setsid sleep ${tag} & setsid sh -c 'sleep ${tag} & sleep ${tag}; true' & echo started; `

/** Processes that have `tag` in an argument; with `program` those of that name. */
export function alive(tag, program) {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
      return words.some((word) => word.includes(tag)) && (!program || words[0] === program)
    } catch {
      return false
    }
  })
}

/** Waits for a state that nothing announces, for 20 s at most. */
export async function until(look) {
  const end = performance.now() + 20_000
  for (let seen = await look(); performance.now() < end; seen = await look()) {
    if (seen) return seen
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error('it did not come to be in 20 s')
}

/** The error that the promise rejects with. */
export const refusal = (promise) =>
  promise.then(
    () => Promise.reject(new Error('nothing was refused')),
    (error) => error,
  )

export function equal(seen, wanted) {
  const [left, right] = [JSON.stringify(seen), JSON.stringify(wanted)]
  if (left !== right) throw new Error(`${left}, expected ${right}`)
}

/**
 * The answer of a program in this sandbox when it connects to a server of ours: "connected", or the error's code.
 * @param {string} [path] of a Unix socket; TCP without it
 */
export async function connects(sandbox, path) {
  const server = createServer((socket) => socket.end())
  await new Promise((resolve, reject) => {
    server.once('error', reject).once('listening', resolve)
    if (path) server.listen(path)
    else server.listen(0, '127.0.0.1')
  })
  const where = path ? JSON.stringify(path) : `${server.address().port}, '127.0.0.1'`
  const script = `require('net').connect(${where}, () => { console.log('connected'); process.exit() }).on('error', (error) => console.log(error.code))`
  try {
    const options = { cwd: inside, ...(sandbox && { sandbox }) }
    return (await run(process.execPath, ['-e', script], options)).stdout.trim()
  } finally {
    server.close()
  }
}
