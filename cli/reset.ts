// --wait-for-reset, of agent and of chat.
import { parseDuration } from './arguments'
import { type OptionTable, setting } from './command'

export const resetOptions = {
  'wait-for-reset': setting(
    'DURATION',
    'wait for a usage limit that ends within this time, then continue (default off)',
  ),
} as const satisfies OptionTable

export function toRetry(value: string | undefined): { waitForResetMs: number } | undefined {
  // "off" turns the wait off; it does not make it endless.
  if (value === undefined || value === 'off') return undefined
  return { waitForResetMs: parseDuration('--wait-for-reset', value) }
}
