// The files that `saveOutput()` writes.
import { invalidOption } from '../error'
import { absolutePath } from '../host'
import { check, checkOptions } from '../option'
import { processOptionChecks, toPath } from './request'

/**
 * Files for `saveOutput()`; at least one. Paths are relative to the working directory of this process.
 */
export interface OutputFiles {
  /** File for stdout. */
  stdout?: string | URL
  /**
   * File for stderr. It may be the file of `stdout`: then both are in it in the order in which they
   * were read.
   */
  stderr?: string | URL
  /**
   * Write after the present content of the files instead of emptying them first.
   *
   * @default false
   */
  append?: boolean
}

/** Result of `saveOutput()`. */
export interface SavedOutput {
  /** Bytes of stdout that were written. */
  stdoutBytes: number
  /** Bytes of stderr that were written. */
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
  return file === undefined ? undefined : absolutePath(typeof file === 'string' ? file : toPath(at, file))
}
