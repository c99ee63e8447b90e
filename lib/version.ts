// The version of this package.
import { join } from 'node:path'

/** Undefined in a bundle, which has no package.json. */
export function packageVersion(): string | undefined {
  try {
    return (require(join(__dirname, '..', '..', 'package.json')) as { version: string }).version
  } catch {
    return undefined
  }
}
