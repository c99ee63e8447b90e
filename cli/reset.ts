// --wait-for-reset, of agent and of chat.
import { parseDuration } from './arguments'
import type { OptionTable } from './command'

export const resetOptions = {
  'wait-for-reset': {
    type: 'string',
    value: 'DURATION',
    help: 'when a usage limit ends within this time, wait for its end and continue (default off)',
  },
} as const satisfies OptionTable

export function toRetry(value: string | undefined): { waitForResetMs: number } | undefined {
  // Of a wait "off" is none, not an endless one.
  if (value === undefined || value === 'off') return undefined
  return { waitForResetMs: parseDuration('--wait-for-reset', value) }
}
