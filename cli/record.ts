// The options by which a command's run is kept on record and named.
import { type OptionTable, setting } from './command'

/** Folder in which records are looked for when none is named. */
export const recordsFolder = '.sheepdog/runs'

export const recordOptions = {
  record: setting('FOLDER', `keep a record in a new folder there (sheepdog view reads ${recordsFolder})`),
  name: setting('NAME', 'its name in sheepdog ps and in its record'),
} as const satisfies OptionTable
