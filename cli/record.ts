// The options by which a command's run is kept on record and named.

/** Where records are looked for when no folder is named. */
export const recordsFolder = '.sheepdog/runs'

export const recordOptions = {
  record: { type: 'string' },
  name: { type: 'string' },
} as const

export const recordUsage = `  --record FOLDER      keep it on record in a new folder there; sheepdog view looks in
                       ${recordsFolder} (docs/record.md)
  --name NAME          what it is called in sheepdog ps and in its record
`
