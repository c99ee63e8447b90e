// --wait-for-reset, of agent and of chat.
import { parseDuration } from './arguments'
import { type OptionTable, setting } from './command'

export const resetOptions = {
  'wait-for-reset': {
    ...setting('DURATION', 'wait for a usage limit that ends within this time, then continue (default off)'),
    // "off" turns the wait off; it does not make it endless.
    read: (flag: string, text: string) => (text === 'off' ? undefined : parseDuration(flag, text)),
  },
} as const satisfies OptionTable
