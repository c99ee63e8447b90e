// `npm run demo`: a real coding agent under watch, offline. `npm run demo -- COMMAND ...` watches any program instead.
import { prepare } from './setup.mjs'

prepare({ addon: 'any' })
await import('./demo/main.mjs')
