// The file `race.json` in the record of a turn (docs/record.md): all entries of its race.
import { join } from 'node:path'
import { readRange } from '../../lib/harness/record_file'
import type { RaceRow } from './source'

const mostBytes = 1 << 20

/** null: the turn was in no race, or in one that is not over. */
export async function raceOf(folder: string): Promise<RaceRow[] | null> {
  const text = (await readRange(join(folder, 'race.json'), 0, mostBytes)).toString()
  try {
    const { entries } = JSON.parse(text) as { entries?: RaceRow[] }
    return Array.isArray(entries) ? entries : null
  } catch {
    return null
  }
}
