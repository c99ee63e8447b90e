// The options by which a command's run is kept on record and named.
import type { OptionTable } from './command'

/** Where records are looked for when no folder is named. */
export const recordsFolder = '.sheepdog/runs'

export const recordOptions = {
  record: {
    type: 'string',
    value: 'FOLDER',
    fits: 'folder',
    help: `keep a record in a new folder below FOLDER; sheepdog view shows those in ${recordsFolder}`,
  },
  name: { type: 'string', value: 'NAME', help: 'name in sheepdog ps and in the record' },
} as const satisfies OptionTable
