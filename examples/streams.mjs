// Streams in and out: a file through a program into a file, by Node's own streams, in little memory.
//
//   node examples/streams.mjs
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { run, spawn } from 'sheepdog'

const folder = await mkdtemp(join(tmpdir(), 'sheepdog-example-'))
const [names, sorted] = [join(folder, 'names'), join(folder, 'sorted')]
await writeFile(names, 'Cy\nAda\nBo\n')

const sort = spawn('sort', { input: createReadStream(names) })
await pipeline(sort.stdoutNode, createWriteStream(sorted))
await sort.result
console.log(await readFile(sorted, 'utf8'))

// A file as it stands is given to the program itself: not a byte of it passes through JavaScript.
const { stdout } = await run('wc', ['-l'], { input: { file: sorted } })
console.log(`${stdout.trim()} lines`)
await rm(folder, { recursive: true })
