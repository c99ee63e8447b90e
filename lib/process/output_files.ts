// Where `saveOutput()` writes.
import { resolve } from 'node:path'
import { invalidOption } from '../error'
import { check, checkOptions } from '../option'
import { processOptionChecks, toPath } from './request'

/** Files of a program's output, relative to the host's working directory; at least one. */
export interface OutputFiles {
  stdout?: string | URL
  /** May be the same file as that of stdout: both are in it as they were read. */
  stderr?: string | URL
  /** After what the files hold; default false: they are emptied. */
  append?: boolean
}

/** Bytes that were written of each. */
export interface SavedOutput {
  stdoutBytes: number
  stderrBytes: number
}

const outputFileChecks = {
  stdout: processOptionChecks.cwd,
  stderr: processOptionChecks.cwd,
  append: check.boolean,
}

/** Checked and absolute: the folder meant at the time of the call. */
export function toOutputFiles(files: OutputFiles): { stdout?: string; stderr?: string; append: boolean } {
  checkOptions(files, outputFileChecks)
  const { stdout, stderr, append = false } = files ?? {}
  if (stdout === undefined && stderr === undefined)
    throw invalidOption('stdout', 'expected a file for stdout, stderr or both')
  return { stdout: toFile('stdout', stdout), stderr: toFile('stderr', stderr), append }
}

function toFile(at: string, file: string | URL | undefined): string | undefined {
  return file === undefined ? undefined : resolve(typeof file === 'string' ? file : toPath(at, file))
}
