// Files that an option of the command line names.
import { readFileSync, type ReadStream } from 'node:fs'
import { access, constants, open } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { absolutePath } from '../lib/host'
import { parseJson, UsageError } from './arguments'
import { setting } from './command'

/** An option whose value is the JSON in a file, such as `--schema FILE`. */
export const jsonFile = <Value = object>(help: string) => ({
  ...setting('FILE', help),
  read: readJson as (flag: string, file: string) => Value,
})

export const schemaOption = jsonFile('JSON Schema that the answer must fit; the answer is printed as JSON')

function readJson(option: string, file: string): unknown {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw notReadable(option, file, error)
  }
  return parseJson(`${option}: ${file}`, text)
}

/** A stream of the file of an option. Resolves when the file is open. */
export async function openStream(option: string, file: string): Promise<ReadStream> {
  try {
    const handle = await open(file)
    // Its first read would fail, long after this.
    if ((await handle.stat()).isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
    return handle.createReadStream()
  } catch (error) {
    throw notReadable(option, file, error)
  }
}

/** The module of an option, and its default export: what a CommonJS module exports is twice in it. */
// oxlint-disable-next-line typescript/no-explicit-any -- a user's module exports anything
export async function loadModule(option: string, file: string): Promise<Record<string, any>> {
  const path = absolutePath(file)
  await access(path, constants.R_OK).catch((error) => {
    throw notReadable(option, file, error)
  })
  try {
    return await import(pathToFileURL(path).href)
  } catch (error) {
    throw new UsageError(`${option}: ${file} can't be loaded: ${(error as Error).message}`)
  }
}

const reasons: Record<string, string> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist: a part of its path is not a folder',
  EACCES: 'may not be read by this user',
  EISDIR: 'is a folder, not a file',
}

/** Says in words why the file of an option cannot be read. */
export function notReadable(option: string, file: string, error: unknown): UsageError {
  const { code, message } = error as NodeJS.ErrnoException
  return new UsageError(`${option}: ${file} ${reasons[code ?? ''] ?? `could not be read: ${message}`}`)
}
